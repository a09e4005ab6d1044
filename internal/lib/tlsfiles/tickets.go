package tlsfiles

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/lib/sharedkey"
)

// Session tickets have a key for each period. A ticket can be used in its period and in keptPeriods further ones, and
// one period early, for replicas whose clocks differ.
const (
	ticketPeriod = 12 * time.Hour
	keptPeriods  = 2
)

// ShareSessions makes servers with the same secrets and the same authorities of client certificates accept each
// other's session tickets. The first secret encrypts, all decrypt. now is the clock; nil means the system's.
//
// Tickets of TLS 1.2 have random keys of this process alone: with the key of a ticket, a recorded connection can be
// decrypted. A connection of TLS 1.3 also has a key exchange of its own.
func (s *Server) ShareSessions(t *tls.Config, secrets [][]byte, files Files, now func() time.Time) error {
	authorities, err := []byte(nil), error(nil)
	if s.ClientCAFile != "" {
		if authorities, err = files.Read(s.ClientCAFile); err != nil {
			return err
		}
	}
	if now == nil {
		now = time.Now
	}
	bond := sha256.Sum256(append([]byte{byte(t.ClientAuth)}, authorities...))
	k := &tickets{secrets: secrets, bond: bond[:], now: now, own: t.Clone()}
	t.WrapSession, t.UnwrapSession = k.wrap, k.unwrap
	return nil
}

// tickets encrypts session tickets.
type tickets struct {
	secrets [][]byte
	bond    []byte // to the authentication of clients, whose certificates are in tickets
	now     func() time.Time
	own     *tls.Config // for the tickets of TLS 1.2
	current atomic.Pointer[ticketKeys]
}

// ticketKeys are the keys of a period and of those around it.
type ticketKeys struct {
	period uint32
	of     [keptPeriods + 2]*aead.Sealer // by the age of the period; the last one is for the next period
}

// keys returns the keys of now.
func (k *tickets) keys() (*ticketKeys, error) {
	period := uint32(k.now().Unix() / int64(ticketPeriod/time.Second))
	if c := k.current.Load(); c != nil && c.period == period {
		return c, nil
	}
	c := &ticketKeys{period: period}
	for age := range c.of {
		purpose := "tls tickets " + strconv.FormatUint(uint64(period+c.shift(age)), 10)
		var err error
		if c.of[age], err = aead.New(sharedkey.Derive(k.secrets, purpose)); err != nil {
			return nil, err
		}
	}
	k.current.Store(c)
	return c, nil
}

// shift returns the distance of a period from the current one, modulo 2^32.
func (c *ticketKeys) shift(age int) uint32 {
	if age == len(c.of)-1 {
		return 1
	}
	return -uint32(age)
}

// wrap implements tls.Config.WrapSession.
func (k *tickets) wrap(at tls.ConnectionState, session *tls.SessionState) ([]byte, error) {
	if at.Version < tls.VersionTLS13 {
		return k.own.EncryptTicket(at, session)
	}
	keys, err := k.keys()
	if err != nil {
		return nil, err
	}
	text, err := session.Bytes()
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, keys.period), keys.of[0].Seal(k.bond, text)...), nil
}

// unwrap implements tls.Config.UnwrapSession. A ticket that cannot be decrypted means a full handshake.
func (k *tickets) unwrap(ticket []byte, at tls.ConnectionState) (*tls.SessionState, error) {
	if at.Version < tls.VersionTLS13 {
		return k.own.DecryptTicket(ticket, at)
	}
	keys, err := k.keys()
	if err != nil {
		return nil, err
	}
	if len(ticket) < 4 {
		return nil, nil
	}
	for age, key := range keys.of {
		if keys.period+keys.shift(age) != binary.BigEndian.Uint32(ticket) {
			continue
		}
		text, err := key.Open(k.bond, ticket[4:])
		if err != nil {
			return nil, nil
		}
		session, err := tls.ParseSessionState(text)
		if err != nil { // of another version of the program
			return nil, nil
		}
		return session, nil
	}
	return nil, nil
}
