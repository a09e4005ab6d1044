package forward

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/lib/signal"
)

// keyInterval is the interval at which the file of a key is read.
const keyInterval = 5 * time.Second

// maxKeyFile is the longest file of a key that is read, in bytes.
const maxKeyFile = 64 << 10

// key is the credential that calls get.
type key struct {
	file    string // "": it never changes
	header  atomic.Pointer[string]
	refused chan struct{} // the gateway did not accept it
}

// newKey returns the key of the settings, which may have none.
func newKey(s Settings) (*key, error) {
	k := &key{file: s.KeyFile, refused: make(chan struct{}, 1)}
	k.set(s.Key)
	if k.file == "" {
		return k, nil
	}
	text, err := readKey(k.file)
	if err != nil {
		return nil, wrong(EnvKeyFile, "%v", err)
	}
	k.set(text)
	return k, nil
}

func (k *key) set(text string) {
	if text != "" {
		text = "Bearer " + text
	}
	k.header.Store(&text)
}

// authorization returns the value of the header; "" if there is none.
func (k *key) authorization() string { return *k.header.Load() }

// reject says that a gateway did not accept the key. It does not block.
func (k *key) reject() {
	signal.Wake(k.refused)
}

// follow reads the file again when it has changed, and when a gateway did not accept the key, until ctx ends.
func (k *key) follow(ctx context.Context, log *slog.Logger, interval time.Duration) {
	told, readable := "", true // the key that the log reports as rejected
	for {
		rejected := signal.Wait(ctx, k.refused, interval)
		if ctx.Err() != nil {
			return
		}
		before := k.authorization()
		if k.file != "" {
			text, err := readKey(k.file)
			if err == nil {
				k.set(text)
			} else if readable {
				log.Error("key cannot be read; calls continue with the last one", "error", err)
			}
			readable = err == nil
		}
		if now := k.authorization(); now != before {
			log.Info("key changed", "file", k.file)
		} else if rejected && told != now {
			told = now
			log.Error("the gateway does not accept the key; set " + EnvKey + " or " + EnvKeyFile +
				" to one that capgate keys new has printed")
		}
	}
}

func readKey(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fileProblem(file, err)
	}
	defer func() { _ = f.Close() }()
	buf := make([]byte, 0, 1024)
	for len(buf) <= maxKeyFile {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := f.Read(buf[len(buf):cap(buf)])
		if buf = buf[:len(buf)+n]; err != nil {
			break // an error of reading leaves something that is no key, or the end of the file
		}
	}
	text := strings.TrimSpace(string(buf))
	if !isValue(text) {
		return "", &SettingError{file, "the file contains no key; want one line that capgate keys new has printed"}
	}
	return text, nil
}
