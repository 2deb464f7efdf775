// gomemcache with users: users PASSWORD_ADDRESS TLS_ADDRESS FOLDER. gomemcache has no logins, and
// opens as many connections as it has concurrent requests. So each connection must be logged in
// when it is made, or need no login.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/bradfitz/gomemcache/memcache"
)

func check(name string, holds bool, why ...any) {
	if holds {
		fmt.Println("ok - gomemcache:", name)
	} else {
		fmt.Println("not ok - gomemcache:", name, why)
	}
}

func isRefused(err error) bool {
	return err != nil && strings.Contains(err.Error(), "not permitted")
}

func item(key string) *memcache.Item {
	return &memcache.Item{Key: key, Value: []byte("go")}
}

// loginBySet shows why a Set is no login: it is the login of one connection, and gomemcache closes
// that connection after a refused command.
func loginBySet(address string) {
	client := memcache.New(address)
	client.MaxIdleConns = 1
	_, err := client.Get("shop:go")
	check("a command without a login fails", err != nil && err != memcache.ErrCacheMiss, err)
	login := &memcache.Item{Key: "login", Value: []byte("shop sesame")}
	check("a Set logs one connection in", client.Set(login) == nil)
	check("a permitted Set on this connection", client.Set(item("shop:go")) == nil)
	err = client.Set(item("other:go"))
	check("a refused Set", isRefused(err), err)
	_, err = client.Get("shop:go")
	check("the next connection is not logged in", err != nil, err)
}

// loginOfEachConnection logs in where gomemcache dials.
func loginOfEachConnection(address string) {
	client := memcache.New(address)
	client.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if deadline, isSet := ctx.Deadline(); isSet {
			conn.SetDeadline(deadline)
		}
		const login = "shop sesame"
		fmt.Fprintf(conn, "set login 0 0 %d\r\n%s\r\n", len(login), login)
		// The server sends nothing after its answer, so the reader takes nothing else away.
		answer, err := bufio.NewReader(conn).ReadString('\n')
		if err == nil && answer != "STORED\r\n" {
			err = errors.New(answer)
		}
		if err != nil {
			conn.Close()
			return nil, err
		}
		return conn, nil
	}
	useConcurrently("a login in DialContext", client)
}

func clientCertificate(address, folder string) {
	pair, err := tls.LoadX509KeyPair(folder+"/client.pem", folder+"/client.key")
	check("the client's certificate", err == nil, err)
	authority, err := os.ReadFile(folder + "/ca.pem")
	check("the authority", err == nil, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}
	client := memcache.New(address)
	client.DialContext = (&tls.Dialer{Config: config}).DialContext
	useConcurrently("a certificate in DialContext", client)
}

// useConcurrently makes more connections than gomemcache keeps, with permitted and refused keys.
func useConcurrently(name string, client *memcache.Client) {
	var group sync.WaitGroup
	errs := make(chan error, 100)
	for range 20 {
		group.Go(func() {
			for range 5 {
				errs <- client.Set(item("shop:go"))
			}
		})
	}
	group.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	check(name+": permitted Sets", errors.Join(all...) == nil, errors.Join(all...))
	found, err := client.Get("shop:go")
	check(name+": a permitted Get", err == nil && string(found.Value) == "go", err)
	_, err = client.Get("other:go")
	check(name+": a refused Get", isRefused(err), err)
	_, err = client.GetMulti([]string{"shop:go", "other:go"})
	check(name+": a refused key refuses the GetMulti", isRefused(err), err)
	err = client.Set(item("other:go"))
	check(name+": a refused Set", isRefused(err), err)
	_, err = client.Get("shop:go")
	check(name+": a Get after the refusals", err == nil, err)
}

func sockets(folder string) {
	client := memcache.New(folder + "/noauth")
	check("noauth: any key", client.Set(item("other:go")) == nil)
	_, err := client.Get("other:go")
	check("noauth: Get", err == nil, err)
	client = memcache.New(folder + "/readonly")
	_, err = client.Get("other:go")
	check("readonly: Get", err == nil, err)
	err = client.Set(item("other:go"))
	check("readonly: a refused Set", isRefused(err), err)
}

func main() {
	loginBySet(os.Args[1])
	loginOfEachConnection(os.Args[1])
	clientCertificate(os.Args[2], os.Args[3])
	sockets(os.Args[3])
}
