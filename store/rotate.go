package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	// rotationLock is the advisory lock of the process that rotates.
	rotationLock = 0x726d726f74617465 // "rmrotate"
	// sealedPage bounds a rotation's transactions.
	sealedPage = 1000
)

// ErrRotating says that a rotation is under way which must be finished first.
var ErrRotating = errors.New("a rotation of the keys is under way")

// Rotation says how the database's sealing keys are replaced.
type Rotation struct {
	// NewMaster replaces the master key; nil keeps it, and replaces only what it wraps.
	NewMaster *keyring.Key
	// Progress is told after each page of values; may be nil.
	Progress func(Rotated)
}

// Rotated is what a rotation has done.
type Rotated struct {
	Master  keyring.ID
	Resumed bool
	// Tenants got a new data key, Values were resealed.
	Tenants, Values int64
	// Unopened are the values that no key opens, as table.column id: they are damaged, and stay as they are.
	Unopened []string
}

// Rotate gives the database new keys, wrapped under the new master key as well as under the present one, and reseals everything under
// them: secrets, and the tenants' numbers under new data keys. Controllers go on meanwhile: they read new keys before anything is
// sealed under them (Config.KeyDelay), and either master key opens the database until WithdrawMasters. One that was interrupted is
// resumed by the same call. Keys that sign stay, and so does the index of numbers, without which opt-outs would be lost.
//
// It needs short transactions alone. A value that somebody replaces at the same time is left as they write it.
func (s *Store) Rotate(ctx context.Context, how Rotation) (done Rotated, err error) {
	r := rotation{s: s, how: how, actor: ActorOf(ctx)}
	ctx = WithActor(ctx, Actor{}) // that a value is resealed changes nothing for its owner, and is in nobody's audit
	alone, err := s.alone(ctx, rotationLock, func() error { return r.run(ctx) })
	if err == nil && !alone {
		err = fmt.Errorf("%w in another process", ErrRotating)
	}
	if err != nil {
		err = fmt.Errorf("rotate the keys: %w", err)
	}
	return r.done, err
}

// rotation is one run.
type rotation struct {
	s    *Store
	how  Rotation
	row  db.SecretRotation
	done Rotated
	// actor is who rotates.
	actor Actor
	// secrets and wraps are the new keys.
	secrets, wraps keyring.Numbered
}

func (r *rotation) run(ctx context.Context) error {
	if err := r.s.InSystem(ctx, func(tx *Tx) error { return r.begin(ctx, tx) }); err != nil {
		return err
	}
	if err := r.s.RefreshKeys(ctx); err != nil {
		return err
	}
	r.secrets, r.wraps = r.s.keysOf(keySecrets)[0], r.s.keysOf(keyDataKeys)[0]
	// Every controller has read the new keys, and seals under them, when twice the delay is over.
	if err := retry.Pause(ctx, time.Until(r.row.BegunAt.Add(2*r.s.keyDelay))); err != nil {
		return err
	}
	if err := r.sweep(ctx); err != nil {
		return err
	}
	// A tenant's data key may be taken for the newest for a while longer.
	if err := retry.Pause(ctx, r.s.keyDelay); err != nil {
		return err
	}
	if err := r.sweep(ctx); err != nil {
		return err
	}
	return r.s.InSystem(ctx, func(tx *Tx) error {
		if err := tx.Q.FinishRotation(ctx, r.row.ID); err != nil {
			return err
		}
		return r.audit(ctx, tx, "secret_keys.rotated", map[string]any{
			"master_key": r.done.Master.String(), "values": r.done.Values, "tenants": r.done.Tenants, "unopened": len(r.done.Unopened),
		})
	})
}

// begin makes the new keys, or takes up the rotation that is open.
func (r *rotation) begin(ctx context.Context, tx *Tx) error {
	if err := tx.Q.LockSecretKeys(ctx); err != nil {
		return err
	}
	masters := []keyring.Key{r.s.master}
	target := r.s.master.ID()
	if r.how.NewMaster != nil && r.how.NewMaster.ID() != target {
		masters = append(masters, *r.how.NewMaster)
		target = r.how.NewMaster.ID()
	}
	r.done = Rotated{Master: target}
	rows, err := tx.Q.ListSecretKeys(ctx)
	if err != nil {
		return err
	}
	var open bool
	switch r.row, err = tx.Q.GetOpenRotation(ctx); {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return err
	case keyring.ID(r.row.MasterID) != target:
		return fmt.Errorf("%w, to the master key with fingerprint %s: finish it with that key first", ErrRotating, keyring.ID(r.row.MasterID))
	default:
		open = true
	}
	if err := knowsMasters(masters, rows); err != nil && !open {
		return err
	}
	if r.done.Resumed = open; open {
		return nil // the keys were made with its row
	}
	if err := r.makeKeys(ctx, tx, masters, rows, target); err != nil {
		return err
	}
	return r.audit(ctx, tx, "secret_keys.rotation_begun", map[string]any{"master_key": target.String(), "opened_by": r.s.master.ID().String()})
}

// audit writes an entry of who rotates; the service's own is none.
func (r *rotation) audit(ctx context.Context, tx *Tx, action string, details any) error {
	return auditKeys(WithActor(ctx, r.actor), tx, action, details)
}

// makeKeys wraps the keys there are, and new ones that seal, under each master key.
func (r *rotation) makeKeys(ctx context.Context, tx *Tx, masters []keyring.Key, rows []db.SecretKey, target keyring.ID) error {
	present, err := unwrapKeys(r.s.master, rows, r.s.keyDelay)
	if err != nil {
		return err
	}
	for _, p := range []Purpose{keySecrets, keyDataKeys} {
		no := present[p][0].No + 1
		if no > keyring.MaxNumber {
			return fmt.Errorf("keys of %s have been replaced %d times, which is the maximum", p, no-1)
		}
		present[p] = slices.Insert(present[p], 0, keyring.Numbered{No: no, Key: keyring.Random()})
	}
	for p, ring := range present {
		for _, key := range ring {
			for _, master := range masters {
				if err := addKey(ctx, tx, master, p, key); err != nil {
					return err
				}
			}
		}
	}
	r.row, err = tx.Q.BeginRotation(ctx, target[:])
	return err
}

// knowsMasters refuses a change of keys that controllers with another master key could not follow.
func knowsMasters(masters []keyring.Key, rows []db.SecretKey) error {
	for _, row := range rows {
		id := keyring.ID(row.MasterID)
		if !slices.ContainsFunc(masters, func(m keyring.Key) bool { return m.ID() == id }) {
			return fmt.Errorf("the master key with fingerprint %s also opens the database and was not given: withdraw it first "+
				"(ringmaster secret withdraw), once every controller has the new one", id)
		}
	}
	return nil
}

// sweep seals anew whatever is not sealed under the new keys.
func (r *rotation) sweep(ctx context.Context) error {
	var tenants []db.ListTenantDataKeysRow
	err := r.s.InSystem(ctx, func(tx *Tx) (err error) {
		tenants, err = tx.Q.ListTenantDataKeys(ctx)
		return err
	})
	if err != nil {
		return err
	}
	r.done.Unopened = nil
	for _, c := range sealedColumns() {
		if !c.installation {
			continue
		}
		if err := r.column(ctx, uuid.Nil, c, nil); err != nil {
			return fmt.Errorf("%s: %w", c.table, err)
		}
	}
	for _, t := range tenants {
		numbers, err := r.renewDataKey(ctx, t.ID)
		switch {
		case errors.Is(err, ErrNotFound): // deleted meanwhile
			continue
		case errors.Is(err, ErrUnseal):
			r.done.Unopened = append(r.done.Unopened, "tenants.data_key "+t.ID.String())
		case err != nil:
			return fmt.Errorf("tenant %s: %w", t.ID, err)
		}
		for _, c := range sealedColumns() {
			if c.installation || c.context == nil && len(numbers) == 0 {
				continue // swept above, or none of them opens
			}
			if err := r.column(ctx, t.ID, c, numbers); err != nil {
				return fmt.Errorf("%s of tenant %s: %w", c.table, t.ID, err)
			}
		}
	}
	return nil
}

// renewDataKey gives a tenant a new data key, unless it has one, and wraps the earlier ones anew: one wrapped under the new key was made
// by this rotation, or since.
func (r *rotation) renewDataKey(ctx context.Context, tenant uuid.UUID) (ring keyring.Ring, err error) {
	renewed := false
	err = r.s.InTenant(ctx, tenant, func(tx *Tx) error {
		row, err := tx.Q.LockTenantDataKeys(ctx, tenant)
		if err != nil {
			return err
		}
		if ring, err = r.s.unwrapDataKeys(db.ListTenantDataKeysRow(row)); err != nil {
			return err
		}
		if no, err := keyring.NumberOf(row.DataKey); err != nil || no == r.wraps.No {
			return err
		}
		next := keyring.Numbered{No: ring[0].No + 1, Key: keyring.Random()}
		if next.No > keyring.MaxNumber {
			return fmt.Errorf("its data key has been replaced %d times, which is the maximum", ring[0].No)
		}
		set := db.ReplaceTenantDataKeysParams{TenantID: tenant, DataKeyNo: int16(next.No), OldDataKey: make([][]byte, len(ring))}
		for _, key := range ring {
			if set.OldDataKey[key.No-1], err = r.wraps.Seal(dataKeyContext(tenant), key.Key[:]); err != nil {
				return err
			}
		}
		if set.DataKey, err = r.wraps.Seal(dataKeyContext(tenant), next.Key[:]); err != nil {
			return err
		}
		ring, renewed = slices.Insert(ring, 0, next), true
		return tx.Q.ReplaceTenantDataKeys(ctx, set)
	})
	if err == nil && renewed {
		r.done.Tenants++
	}
	return ring, err
}

// inScope is a transaction of a tenant, or, for the nil UUID, of the service.
func (r *rotation) inScope(ctx context.Context, tenant uuid.UUID, fn func(*Tx) error) error {
	if tenant == uuid.Nil {
		return r.s.InSystem(ctx, fn)
	}
	return r.s.InTenant(ctx, tenant, fn)
}

// column seals a column's values of one tenant anew, in pages.
func (r *rotation) column(ctx context.Context, tenant uuid.UUID, c sealedColumn, numbers keyring.Ring) error {
	ring, key, contextOf := r.s.keysOf(keySecrets), r.secrets, c.context
	if c.context == nil {
		ring, key = numbers, numbers[0]
		contextOf = func(uuid.UUID) string { return phoneContext(tenant) }
	}
	for after := (uuid.UUID{}); ; {
		var last uuid.UUID
		var count int64
		var unopened []string
		err := r.inScope(ctx, tenant, func(tx *Tx) error {
			unopened, count, last = nil, 0, uuid.UUID{}
			rows, err := c.read(ctx, tx.Q, tenant, after, sealedPage)
			if err != nil || len(rows) == 0 {
				return err
			}
			last = rows[len(rows)-1].ID
			batch := resealBatch{TenantID: tenant}
			for _, row := range rows {
				if no, err := keyring.NumberOf(row.Sealed); row.Sealed == nil || err == nil && no == key.No {
					continue
				}
				plain, err := ring.Open(contextOf(row.ID), row.Sealed)
				if err != nil {
					unopened = append(unopened, c.table+"."+c.column+" "+row.ID.String())
					continue
				}
				sealed, err := key.Seal(contextOf(row.ID), plain)
				if err != nil {
					return err
				}
				batch.Ids, batch.Was, batch.Sealed = append(batch.Ids, row.ID), append(batch.Was, row.Sealed), append(batch.Sealed, sealed)
			}
			if len(batch.Ids) == 0 {
				return nil
			}
			count, err = c.write(ctx, tx.Q, batch)
			return err
		})
		if err != nil {
			return err
		}
		r.done.Values += count
		r.done.Unopened = append(r.done.Unopened, unopened...)
		if last == (uuid.UUID{}) {
			return nil
		}
		if after = last; count > 0 && r.how.Progress != nil {
			r.how.Progress(r.done)
		}
	}
}
