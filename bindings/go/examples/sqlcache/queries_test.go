package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

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

func ask7(t *testing.T, queries *Queries) Report {
	t.Helper()
	found, err := report(t.Context(), queries, 7)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestManyWhoAskAtOnceAskTheDatabaseOnce(t *testing.T) {
	queries := openForTest(t)
	answer, err := askAtOnce(t.Context(), queries, 20)
	if err != nil || answer.Customers == 0 || answer.Cents == 0 {
		t.Fatalf("%v, %v", answer, err)
	}
	if again := ask7(t, queries); again != answer || queries.Asked() != 1 {
		t.Errorf("%v, %d queries", again, queries.Asked())
	}
}

func TestAWriteIsSeenAtOnce(t *testing.T) {
	queries := openForTest(t)
	for range 3 {
		before := ask7(t, queries)
		if err := sell(t.Context(), queries, 7, 100); err != nil {
			t.Fatal(err)
		}
		if after := ask7(t, queries); after.Cents != before.Cents+100 {
			t.Errorf("%v, and before the sale %v", after, before)
		}
	}
	// Also where the generation is not there any more.
	before := ask7(t, queries)
	if err := queries.Cache.Clear(); err != nil {
		t.Fatal(err)
	}
	if err := sell(t.Context(), queries, 7, 100); err != nil {
		t.Fatal(err)
	}
	if after := ask7(t, queries); after.Cents != before.Cents+100 {
		t.Errorf("%v, and before the sale %v", after, before)
	}
}

func TestWhatIsTooOldIsShownWhileItIsAskedAnew(t *testing.T) {
	queries := openForTest(t)
	old := ask7(t, queries)
	// Behind the cache's back.
	if _, err := queries.DB.Exec("insert into sale values (7, 'somebody', 100)"); err != nil {
		t.Fatal(err)
	}
	if found := ask7(t, queries); found != old {
		t.Errorf("%v before its time is over", found)
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if ask7(t, queries).Cents == old.Cents+100 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it is not asked anew")
		}
	}
	if queries.Asked() != 2 {
		t.Errorf("%d queries", queries.Asked())
	}
}

func TestErrorsAreNotKept(t *testing.T) {
	queries := openForTest(t)
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := report(ended, queries, 7); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := queries.DB.Exec("alter table sale rename to kept"); err != nil {
		t.Fatal(err)
	}
	if found, err := report(t.Context(), queries, 7); err == nil {
		t.Errorf("%v of no table", found)
	}
	if _, err := queries.DB.Exec("alter table kept rename to sale"); err != nil {
		t.Fatal(err)
	}
	ask7(t, queries)
}
