package client

import "context"

type login struct{ user, password string }

// AuthPlain authenticates the client at all servers, with user and password instead of those in
// Options. The binary protocol uses SASL PLAIN; the others use memcached's login for the text
// protocol. AuthPlain checks the login with a Ping. It closes the connections with the old login;
// new connections use the new one.
//
// User and password are sent in clear text, so the servers should be local or have TLS.
func (c *Client) AuthPlain(ctx context.Context, user, password string) error {
	c.mu.Lock()
	c.login = &login{user, password}
	old := c.nodes
	// Servers that require a login do not share their memory, so the nodes must be created again.
	c.nodes = make(map[string]*node)
	c.mu.Unlock()
	for _, n := range old {
		n.leave()
	}
	return c.PingContext(ctx)
}

// currentLogin returns nil if the client does not authenticate.
func (c *Client) currentLogin() *login {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.login
}
