package account

import (
	"context"

	"github.com/ringmaster/ringmaster/conf"
)

// SwitchTrunks gives what the switch must know of all tenants' active trunks: the gateways of those that register or authenticate, their
// passwords in the clear, and every carrier's host.
func (s *Service) SwitchTrunks(ctx context.Context) (gateways []conf.Gateway, hosts []string, err error) {
	tenants, err := s.Tenants(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range tenants {
		trunks, err := s.Trunks(ctx, t.ID)
		if err != nil {
			return nil, nil, err
		}
		for _, trunk := range trunks {
			if !trunk.IsActive {
				continue
			}
			hosts = append(hosts, trunk.Host)
			if trunk.Username == nil && !trunk.Register {
				continue
			}
			g, err := s.Gateway(ctx, t.ID, trunk.ID)
			if err != nil {
				return nil, nil, err
			}
			gateways = append(gateways, g)
		}
	}
	return gateways, hosts, nil
}
