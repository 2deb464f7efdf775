package chart

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	user     = "shop"
	password = "sesame-open"
)

// secrets has the contents of the files that the pods mount, by their names in the pod.
type secrets struct {
	files map[string]string
	// client has a certificate, and trusts that of the servers.
	client *tls.Config
}

// signed returns a certificate and its key in PEM. Without an authority it signs itself.
func signed(t *testing.T, name string, authority *tls.Certificate) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, signer := form, any(private)
	if authority == nil {
		form.IsCA, form.KeyUsage = true, x509.KeyUsageCertSign
	} else if parent, err = x509.ParseCertificate(authority.Certificate[0]); err != nil {
		t.Fatal(err)
	} else {
		signer = authority.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, form, parent, &private.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

func pair(t *testing.T, certificate, key string) tls.Certificate {
	t.Helper()
	both, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return both
}

func newSecrets(t *testing.T) secrets {
	t.Helper()
	ca, caKey := signed(t, "authority", nil)
	authority := pair(t, ca, caKey)
	certificate, key := signed(t, "server", &authority)
	ownCertificate, ownKey := signed(t, "client", &authority)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(ca))
	return secrets{
		files: map[string]string{
			"users.toml": `users = [ { name = "` + user + `", password = "` + password +
				`", rights = "admin" } ]` + "\n",
			"tls.crt": certificate, "tls.key": key, "ca.crt": ca,
			"login":  user + ":" + password + "\n",
			"tokens": "read " + strings.Repeat("a", 40) + "\n",
		},
		client: &tls.Config{
			RootCAs: trusted, Certificates: []tls.Certificate{pair(t, ownCertificate, ownKey)},
		},
	}
}

// write makes a file as the kubelet does: mode 0440 is that of the volumes of the chart.
func (of secrets) write(t *testing.T, folder, name string) {
	t.Helper()
	text, ok := of.files[name]
	if !ok {
		t.Fatalf("the test has no secret %s", name)
	}
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o440); err != nil {
		t.Fatal(err)
	}
}
