package approvals

import "net/url"

// SetPublicURL sets the URL at which people reach the public port, without a final slash: the beginning of
// Approval.Link. "": no links.
func (k *Service) SetPublicURL(base string) {
	k.publicURL.Store(&base)
}

// link returns the address of the page that answers an approval, or "". The tenant may be any bytes.
func (k *Service) link(a *Approval) string {
	base := k.publicURL.Load()
	if base == nil || *base == "" || a.ID == "" {
		return ""
	}
	return *base + "/inbox#/" + url.PathEscape(a.Tenant) + "/" + url.PathEscape(a.ID)
}
