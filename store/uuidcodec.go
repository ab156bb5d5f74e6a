package store

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// plainUUIDs has the driver pass uuid.UUID on as the 16 bytes that it is. By itself it takes each through its text, both ways.
func plainUUIDs(m *pgtype.Map) {
	plain := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: uuidCodec{}}
	m.RegisterType(plain)
	m.RegisterType(&pgtype.Type{Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: &pgtype.ArrayCodec{ElementType: plain}})
}

// uuidCodec knows uuid.UUID besides what the driver's own knows.
type uuidCodec struct{ pgtype.UUIDCodec }

// PlanEncode implements pgtype.Codec.
func (c uuidCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case uuid.UUID, *uuid.UUID:
			return uuidEncode{}
		}
	}
	return c.UUIDCodec.PlanEncode(m, oid, format, value)
}

// PlanScan implements pgtype.Codec.
func (c uuidCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ours := target.(*uuid.UUID); ours && format == pgtype.BinaryFormatCode {
		return uuidScan{}
	}
	return c.UUIDCodec.PlanScan(m, oid, format, target)
}

type uuidEncode struct{}

func (uuidEncode) Encode(value any, buf []byte) ([]byte, error) {
	switch id := value.(type) {
	case uuid.UUID:
		return append(buf, id[:]...), nil
	case *uuid.UUID: // nil is NULL, which the driver has seen to
		return append(buf, id[:]...), nil
	}
	return nil, fmt.Errorf("encode a UUID: %T is none", value)
}

type uuidScan struct{}

// Scan leaves what there is for NULL, as uuid.UUID does.
func (uuidScan) Scan(src []byte, target any) error {
	id, ours := target.(*uuid.UUID)
	if !ours || src != nil && len(src) != len(id) {
		return fmt.Errorf("read a UUID: %d bytes for a %T", len(src), target)
	}
	if src != nil {
		copy(id[:], src)
	}
	return nil
}
