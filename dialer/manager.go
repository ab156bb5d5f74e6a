package dialer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// managerBackoff is the wait after the connection that holds the pacers' locks was lost.
const managerBackoff = time.Second

// Run paces all running campaigns that no other controller paces, until ctx ends. When it returns no pacer runs and
// no lead is claimed. Beside them it does the scrubs that outlasted their requests.
func (s *Service) Run(ctx context.Context, originator Originator) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { s.scrubOpen(ctx) })
	for {
		if err := s.manage(ctx, originator); ctx.Err() == nil {
			s.log.WarnContext(ctx, "pacers stopped, starting them again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(managerBackoff):
		}
	}
}

// manager holds the advisory locks of the campaigns that this controller paces, all on one connection of its own:
// when that breaks, all locks are gone, and so must be all pacers. The locks of a controller that dies are free at once, those of one
// whose machine or network vanishes when the server gives the connection up (see store/liveness.go); another controller looks for
// free campaigns each Poll, so that they are paced again within 10 s either way.
type manager struct {
	s          *Service
	originator Originator
	conn       *pgx.Conn
	pacers     map[uuid.UUID]*runningPacer
	// left are the campaigns that were left to other controllers, with when their locks are tried for again.
	left map[uuid.UUID]time.Time
}

// leftFor is how long a campaign is left to the controller that has its agents before this one would pace it again.
const leftFor = 15 * time.Second

type runningPacer struct {
	cancel context.CancelFunc
	done   chan struct{}
	// yielded is set before done is closed: the campaign is left to the controller that has its agents.
	yielded bool
}

func (s *Service) manage(ctx context.Context, originator Originator) (err error) {
	cfg := s.st.Pool().Config().ConnConfig.Copy()
	cfg.RuntimeParams["application_name"] = "ringmaster pacers"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("connect for the pacers' locks: %w", err)
	}
	m := &manager{s: s, originator: originator, conn: conn, pacers: make(map[uuid.UUID]*runningPacer), left: make(map[uuid.UUID]time.Time)}
	defer func() { err = errors.Join(err, m.close(ctx)) }()
	tick := time.NewTicker(s.cfg.Poll)
	defer tick.Stop()
	for {
		if err := m.round(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-s.signals.kick:
		}
	}
}

// round starts and stops pacers as the campaigns' states say. A database that can't be read now stops nothing: the
// gate holds.
func (m *manager) round(ctx context.Context) error {
	var campaigns []db.CampaignsToPaceRow
	listCtx, cancelList := context.WithTimeout(ctx, lockTimeout)
	defer cancelList()
	err := m.s.st.InSystem(listCtx, func(tx *store.Tx) error {
		var err error
		campaigns, err = tx.Q.CampaignsToPace(listCtx)
		return err
	})
	if err != nil && ctx.Err() == nil {
		m.s.log.WarnContext(ctx, "running campaigns can't be listed", "error", err)
	}
	if err == nil {
		wanted := make(map[uuid.UUID]bool, len(campaigns))
		var free []db.CampaignsToPaceRow
		for _, c := range campaigns {
			wanted[c.ID] = true
			mine, err := m.keep(ctx, c)
			if err != nil {
				return err
			}
			if !mine {
				free = append(free, c)
			}
		}
		if err := m.take(ctx, free); err != nil {
			return err
		}
		for id := range m.pacers {
			if !wanted[id] {
				if err := m.stop(ctx, id); err != nil {
					return err
				}
			}
		}
	}
	pingCtx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	if err := m.conn.Ping(pingCtx); err != nil {
		return fmt.Errorf("connection of the pacers' locks is lost: %w", err)
	}
	return nil
}

// lockTimeout bounds each statement on the locks' connection. It is also how long a controller that has lost the database goes
// on pacing at most, which does nothing: the gate needs the database.
const lockTimeout = 3 * time.Second

func lockName(campaign uuid.UUID) string { return "ringmaster.pacer:" + campaign.String() }

// keep sees to the pacer of a campaign whose lock is held; false when that may be tried for.
func (m *manager) keep(ctx context.Context, c db.CampaignsToPaceRow) (mine bool, err error) {
	p := m.pacers[c.ID]
	if p == nil {
		if time.Now().Before(m.left[c.ID]) {
			return true, nil
		}
		delete(m.left, c.ID)
		return false, nil
	}
	select {
	case <-p.done:
		if p.yielded {
			m.left[c.ID] = time.Now().Add(leftFor)
			return true, m.stop(ctx, c.ID)
		}
		p.cancel() // it saw the campaign halted, and the campaign runs again
		m.spawn(ctx, c)
	default:
	}
	return true, nil
}

// take tries for the locks of campaigns, in one statement, and paces those that it gets.
func (m *manager) take(ctx context.Context, campaigns []db.CampaignsToPaceRow) error {
	if len(campaigns) == 0 {
		return nil
	}
	names := make([]string, len(campaigns))
	for i, c := range campaigns {
		names[i] = lockName(c.ID)
	}
	lockCtx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	rows, err := m.conn.Query(lockCtx,
		"SELECT pg_try_advisory_lock(hashtextextended(u.name, 0)) FROM unnest($1::text[]) WITH ORDINALITY u (name, n) ORDER BY u.n", names)
	if err != nil {
		return fmt.Errorf("lock campaigns for pacing: %w", err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[bool])
	if err != nil {
		return fmt.Errorf("lock campaigns for pacing: %w", err)
	}
	for i, c := range campaigns {
		if got[i] {
			m.spawn(ctx, c)
		}
	}
	return nil
}

func (m *manager) spawn(ctx context.Context, c db.CampaignsToPaceRow) {
	pacerCtx, cancel := context.WithCancel(ctx)
	p := &runningPacer{cancel: cancel, done: make(chan struct{})}
	m.pacers[c.ID] = p
	m.s.metrics.pacers.Set(float64(len(m.pacers)))
	wake := m.s.signals.open(c.TenantID, c.ID)
	go func() {
		defer close(p.done)
		pacer := newPacer(m.s, m.originator, c.TenantID, c.ID, wake)
		pacer.run(pacerCtx)
		if p.yielded = pacer.yielded; p.yielded {
			m.s.signals.changed()
		}
	}()
}

func (m *manager) stop(ctx context.Context, id uuid.UUID) error {
	p := m.pacers[id]
	p.cancel()
	<-p.done
	delete(m.pacers, id)
	m.s.signals.close(id)
	m.s.metrics.pacers.Set(float64(len(m.pacers)))
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	if _, err := m.conn.Exec(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", lockName(id)); err != nil {
		return fmt.Errorf("unlock campaign %s: %w", id, err)
	}
	return nil
}

// close ends all pacers and then the connection, which frees the locks for another controller.
func (m *manager) close(ctx context.Context) error {
	for _, p := range m.pacers {
		p.cancel()
	}
	for id, p := range m.pacers {
		<-p.done
		m.s.signals.close(id)
	}
	m.s.metrics.pacers.Set(0)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockTimeout)
	defer cancel()
	if err := m.conn.Close(ctx); err != nil {
		return fmt.Errorf("close the connection of the pacers' locks: %w", err)
	}
	return nil
}
