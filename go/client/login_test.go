package client

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"larder.example/larder/internal/check"
	"larder.example/larder/internal/testserver"
)

func TestAuthPlain(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	check.NoError(t, os.WriteFile(users, []byte("app:secret\n"), 0o600))
	t.Setenv("MEMCACHED_SASL_PWDB", users)
	for _, test := range []struct {
		server   string
		args     []string
		protocol Protocol
	}{
		{"larderd", []string{"-S"}, ProtocolBinary},
		{"larderd", []string{"-Y", users}, ProtocolAuto},
		{"memcached", []string{"-Y", users}, ProtocolText},
	} {
		t.Run(fmt.Sprint(test.server, test.protocol), func(t *testing.T) {
			ctx := context.Background()
			socket := testserver.Start(t, test.server, test.args...)
			c := newClient(t, Options{Servers: []string{socket}, Protocol: test.protocol, BackoffMin: -1})
			if _, err := c.Get("k"); err == nil || err == ErrCacheMiss {
				t.Errorf("Get without a login: error %v, want a rejection", err)
			}
			check.ErrorIs(t, "AuthPlain", c.AuthPlain(ctx, "app", "guess"), ErrLogin)
			check.NoError(t, c.AuthPlain(ctx, "app", "secret"))
			check.NoError(t, c.Set(&Item{Key: "k", Value: []byte("v")}))
			wantValue(t, c, "k", "v")
			check.ErrorIs(t, "AuthPlain", c.AuthPlain(ctx, "app", "guess"), ErrLogin)
			_, err := c.Get("k")
			check.ErrorIs(t, "Get", err, ErrLogin)
		})
	}
}
