package bodybudget

import (
	"io"
	"net/http"
	"time"
)

// Patient is a request's body whose client may send nothing for so long, and no longer: Read fails with
// os.ErrDeadlineExceeded then.
func Patient(w http.ResponseWriter, body io.ReadCloser, stall time.Duration) io.ReadCloser {
	return &patient{ReadCloser: body, control: http.NewResponseController(w), stall: stall}
}

type patient struct {
	io.ReadCloser
	control *http.ResponseController
	stall   time.Duration
}

func (p *patient) Read(b []byte) (int, error) {
	_ = p.control.SetReadDeadline(time.Now().Add(p.stall))
	n, err := p.ReadCloser.Read(b)
	if err == io.EOF { // from here on only the client's leaving is read
		_ = p.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
