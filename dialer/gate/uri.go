package gate

import (
	"context"
	"errors"
	"time"

	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// uriTarget finds where a transfer to a SIP URI leads. Its host must be one of the tenant's (sipHosts). A user part that is a phone number
// may ring as a phone wherever the host leads it: the rules of numbers hold for it.
func (g *Gate) uriTarget(ctx context.Context, req admission.Request, now time.Time) (carrier.Target, *RefusalError, error) {
	target, err := g.Hosts.Check(ctx, req.TenantID, req.ToURI)
	if bad, ok := errors.AsType[*carrier.URIError](err); ok {
		g.Log.InfoContext(ctx, "SIP URI is refused", "tenant_id", req.TenantID, "error", err)
		return target, Refuse(ReasonSIPHost, now, time.Time{}, "%s", bad.Detail), nil
	}
	return target, nil, err
}
