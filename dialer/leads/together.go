package leads

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/input"
)

const (
	// pushBatch bounds the leads of one statement.
	pushBatch = 100
	// pushTimeout bounds a statement, which has the leads of other requests than the one that sends it.
	pushTimeout = 10 * time.Second
)

// lane is a campaign into which leads are pushed one a request.
type lane struct{ tenant, campaign uuid.UUID }

// pushes are the leads that wait while a statement brings others into their campaign; they go with the next. Nobody waits for more to come: a
// lead that comes alone is sent at once. A statement costs many times what one more lead in it does. The zero value is ready.
type pushes struct {
	mu    sync.Mutex         // guards lanes
	lanes map[lane][]*pushed // a lane is there while a statement is under way
}

// pushed is a lead on its way.
type pushed struct {
	row      leadRow
	scrubbed bool
	// turn has the leads, this one first, that it is to send as the statement before has ended; it is closed when this one was sent by another.
	turn chan []*pushed
	// made is nil for a lead that was not added. Who waits for turn reads it then.
	made *db.LeadsPushRow
}

// enter gives the lead to be sent at once, or nothing: it waits for its turn.
func (s *pushes) enter(to lane, p *pushed) []*pushed {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting, busy := s.lanes[to]
	if busy {
		s.lanes[to] = append(waiting, p)
		return nil
	}
	if s.lanes == nil {
		s.lanes = map[lane][]*pushed{}
	}
	s.lanes[to] = nil
	return []*pushed{p}
}

// next has those sent that have come meanwhile, by the first of them.
func (s *pushes) next(to lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.lanes[to]
	if len(waiting) == 0 {
		delete(s.lanes, to)
		return
	}
	batch := slices.Clone(waiting[:min(len(waiting), pushBatch)])
	s.lanes[to] = slices.Clone(waiting[len(batch):])
	batch[0].turn <- batch
}

// leave takes out a lead that still waits.
func (s *pushes) leave(to lane, p *pushed) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.lanes[to], p)
	if at >= 0 {
		s.lanes[to] = slices.Delete(s.lanes[to], at, at+1)
	}
	return at >= 0
}

// pushPlain adds a lead when there is nothing about it that takes more than the statement: false then, whatever it was. Of a connection that was
// lost nobody knows whether it has brought the lead.
func (l *Service) pushPlain(ctx context.Context, tenant, campaign uuid.UUID, row leadRow, scrubbed bool) (Lead, bool, error) {
	if row.status != StatusNew || scrubbed && row.listed {
		return Lead{}, false, nil
	}
	p, to := &pushed{row: row, scrubbed: scrubbed, turn: make(chan []*pushed, 1)}, lane{tenant, campaign}
	batch := l.pushes.enter(to, p)
	if batch == nil {
		select {
		case batch = <-p.turn:
		case <-ctx.Done():
			if l.pushes.leave(to, p) {
				return Lead{}, false, fmt.Errorf("wait for other leads: %w", ctx.Err())
			}
			batch = <-p.turn
		}
	}
	if batch != nil {
		l.sendPushes(ctx, to, batch)
	}
	if p.made == nil {
		return Lead{}, false, nil
	}
	at := p.made.CreatedAt
	return ViewOf(db.Lead{
		TenantID: tenant, ID: row.id, CampaignID: campaign, Phone: row.phone, PhoneLast4: row.phone.Last4(), Name: input.OrNil(row.name),
		Email: input.OrNil(row.email), Metadata: p.made.Metadata, CrmLeadID: input.OrNil(row.crmLeadID), DndChecked: scrubbed, DndClean: scrubbed,
		DndCheckedAt: p.made.DndCheckedAt, CustomFields: p.made.CustomFields, Status: string(StatusNew), CreatedAt: at, UpdatedAt: at,
		Priority: int32(row.priority), //nolint:gosec // bounded
	}, store.PrivacyStandard), true, nil
}

// sendPushes sends leads, tells those who wait for them, and has the next ones sent. A statement that fails has added none.
func (l *Service) sendPushes(ctx context.Context, to lane, batch []*pushed) {
	defer l.pushes.next(to)
	defer func() {
		for _, p := range batch[1:] {
			close(p.turn)
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pushTimeout)
	defer cancel()
	params := db.LeadsPushParams{TenantID: to.tenant, CampaignID: to.campaign, Now: l.Now()}
	of := make(map[uuid.UUID]*pushed, len(batch))
	for _, p := range batch {
		r := p.row
		of[r.id] = p
		params.Ids, params.Phones, params.Hashes = append(params.Ids, r.id), append(params.Phones, r.phone.National()), append(params.Hashes, r.hash)
		params.Last4s, params.Names, params.Emails = append(params.Last4s, r.phone.Last4()), append(params.Names, r.name), append(params.Emails, r.email)
		params.Metadatas, params.CrmLeadIds = append(params.Metadatas, string(r.metadata)), append(params.CrmLeadIds, r.crmLeadID)
		params.Checked = append(params.Checked, p.scrubbed)
		params.Priorities = append(params.Priorities, int32(r.priority)) //nolint:gosec // bounded
	}
	made, err := l.Store.Write(to.tenant).LeadsPush(ctx, params)
	if err != nil {
		return
	}
	for i := range made {
		of[made[i].ID].made = &made[i]
	}
}
