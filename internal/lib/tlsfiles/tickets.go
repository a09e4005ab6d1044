package tlsfiles

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/lib/sharedkey"
)

// A session ends sessionAge after its full handshake, however often it is resumed. Shared tickets have a key for each
// period. A ticket can be used in its period and in keptPeriods further ones, and one period early, for replicas whose
// clocks differ.
const (
	sessionAge   = 24 * time.Hour
	ticketPeriod = 12 * time.Hour
	keptPeriods  = 2
)

// fullHandshake precedes the time of the full handshake in tls.SessionState.Extra, in seconds.
const fullHandshake = "capgate full handshake "

// tickets encrypts the session tickets of a port. crypto/tls gives each ticket a new time, so tickets adds that of the
// full handshake.
//
// With secrets, servers with the same certificate accept each other's tickets of TLS 1.3. The first secret encrypts,
// all decrypt. All other tickets have random keys of this Config alone. With the key of a ticket of TLS 1.2, a recorded
// connection can be decrypted; a connection of TLS 1.3 also has a key exchange of its own.
type tickets struct {
	port    *tls.Config
	own     *tls.Config // has the random keys
	secrets [][]byte    // may be empty
	bond    []byte      // to the certificate of the server
	current atomic.Pointer[ticketKeys]
}

// limitSessions limits the age of the sessions of a port, and shares them if there are secrets.
func limitSessions(port *tls.Config, secrets [][]byte) {
	bond := sha256.Sum256(port.Certificates[0].Certificate[0])
	k := &tickets{port: port, own: port.Clone(), secrets: secrets, bond: bond[:]}
	port.GetConfigForClient = k.connection
}

// connection implements tls.Config.GetConfigForClient.
func (k *tickets) connection(*tls.ClientHelloInfo) (*tls.Config, error) {
	c := k.port.Clone()
	var began time.Time // of the session that the client has shown last; crypto/tls resumes no earlier one
	c.UnwrapSession = func(ticket []byte, at tls.ConnectionState) (*tls.SessionState, error) {
		session, err := k.unwrap(ticket, at)
		if session == nil || err != nil {
			return nil, err
		}
		if began = beginning(session); k.now().Sub(began) > sessionAge {
			return nil, nil
		}
		return session, nil
	}
	c.WrapSession = func(at tls.ConnectionState, session *tls.SessionState) ([]byte, error) {
		if !at.DidResume {
			began = k.now()
		}
		session.Extra = append(session.Extra, strconv.AppendInt([]byte(fullHandshake), began.Unix(), 10))
		return k.wrap(at, session)
	}
	return c, nil
}

// beginning returns the time of a session's full handshake. It is the year 1970 if the session has none.
func beginning(session *tls.SessionState) time.Time {
	for _, extra := range session.Extra {
		if text, ok := strings.CutPrefix(string(extra), fullHandshake); ok {
			seconds, _ := strconv.ParseInt(text, 10, 64)
			return time.Unix(seconds, 0)
		}
	}
	return time.Unix(0, 0)
}

func (k *tickets) now() time.Time {
	if k.port.Time != nil {
		return k.port.Time()
	}
	return time.Now()
}

// shares reports whether other servers accept the tickets of a connection.
func (k *tickets) shares(at tls.ConnectionState) bool {
	return len(k.secrets) > 0 && at.Version >= tls.VersionTLS13
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

// wrap encrypts a session.
func (k *tickets) wrap(at tls.ConnectionState, session *tls.SessionState) ([]byte, error) {
	if !k.shares(at) {
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

// unwrap decrypts a ticket. It returns nil for one that cannot be decrypted, which means a full handshake.
func (k *tickets) unwrap(ticket []byte, at tls.ConnectionState) (*tls.SessionState, error) {
	if !k.shares(at) {
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
