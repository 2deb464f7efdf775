package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

// equal reports an error of the form "what = got, want want" if the two differ.
func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %#v, want %#v", what, got, want)
	}
}

// openForTest opens a database with a cache, which are closed at the end of the test.
func openForTest(t *testing.T) *Queries {
	t.Helper()
	database, err := openShop()
	if err != nil {
		t.Fatal(err)
	}
	queries, err := openQueries(database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = queries.Cache.Close()
		_ = database.Close()
	})
	return queries
}

// reportOf7 returns the report of city 7.
func reportOf7(t *testing.T, queries *Queries) Report {
	t.Helper()
	found, err := report(t.Context(), queries, 7)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestConcurrentCallersShareOneQuery(t *testing.T) {
	queries := openForTest(t)
	answer, err := queryConcurrently(t.Context(), queries, 20)
	if err != nil || answer.Customers == 0 || answer.Cents == 0 {
		t.Fatalf("queryConcurrently = %+v, %v, want customers and cents", answer, err)
	}
	equal(t, "report from the cache", reportOf7(t, queries), answer)
	equal(t, "executed queries", queries.Executed(), 1)
}

func TestWriteInvalidatesResults(t *testing.T) {
	queries := openForTest(t)
	for range 3 {
		before := reportOf7(t, queries)
		if err := sell(t.Context(), queries, 7, 100); err != nil {
			t.Fatal(err)
		}
		equal(t, "cents after a sale", reportOf7(t, queries).Cents, before.Cents+100)
	}
	// The generation may have been evicted.
	before := reportOf7(t, queries)
	if err := queries.Cache.Clear(); err != nil {
		t.Fatal(err)
	}
	if err := sell(t.Context(), queries, 7, 100); err != nil {
		t.Fatal(err)
	}
	equal(t, "cents after Clear and a sale", reportOf7(t, queries).Cents, before.Cents+100)
}

func TestStaleResultIsReturnedDuringRefresh(t *testing.T) {
	queries := openForTest(t)
	old := reportOf7(t, queries)
	// Not through Queries, so the result stays valid.
	if _, err := queries.DB.Exec("insert into sale values (7, 'somebody', 100)"); err != nil {
		t.Fatal(err)
	}
	equal(t, "report before it expires", reportOf7(t, queries), old)
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if reportOf7(t, queries).Cents == old.Cents+100 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no refreshed report after 5 s")
		}
	}
	equal(t, "executed queries", queries.Executed(), 2)
}

func TestErrorsAreNotStored(t *testing.T) {
	queries := openForTest(t)
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := report(ended, queries, 7); !errors.Is(err, context.Canceled) {
		t.Errorf("report with a cancelled context: error %v, want %v", err, context.Canceled)
	}
	if _, err := queries.DB.Exec("alter table sale rename to kept"); err != nil {
		t.Fatal(err)
	}
	if found, err := report(t.Context(), queries, 7); err == nil {
		t.Errorf("report without the table = %v, want an error", found)
	}
	if _, err := queries.DB.Exec("alter table kept rename to sale"); err != nil {
		t.Fatal(err)
	}
	reportOf7(t, queries)
}
