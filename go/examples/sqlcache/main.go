// Command sqlcache puts a cache in front of a SQL database. The cache stores results for a second,
// and returns them for another ten minutes while one caller refreshes them. A write invalidates
// them immediately.
//
//	go run ./sqlcache
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"math/rand"
	"sync"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"larder.example/larder"
)

// Report is the result of a frequent query.
type Report struct {
	Customers, Cents int64
}

func (r Report) String() string {
	return fmt.Sprintf("%d customers, %d dollars", r.Customers, r.Cents/100)
}

const reportQuery = `select count(distinct customer), coalesce(sum(cents), 0) from sale where city = ?`

func report(ctx context.Context, queries *Queries, city int) (Report, error) {
	scan := func(row *sql.Rows) (r Report, err error) { return r, row.Scan(&r.Customers, &r.Cents) }
	rows, err := Select(ctx, queries, "sale", scan, reportQuery, city)
	if err != nil {
		return Report{}, err
	}
	return rows[0], nil
}

func sell(ctx context.Context, queries *Queries, city, cents int) error {
	return queries.Exec(ctx, "sale", "insert into sale values (?, 'somebody', ?)", city, cents)
}

// openShop creates a database of a hundred thousand sales in fifty cities.
func openShop() (*sql.DB, error) {
	database, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		return nil, err
	}
	// Each connection to :memory: opens a separate database.
	database.SetMaxOpenConns(1)
	_, err = database.Exec(`
		create table sale (city integer, customer text, cents integer);
		with recursive n(i) as (select 0 union all select i + 1 from n where i < 99999)
		insert into sale select i % 50, 'customer ' || (i % 39989), i % 9973 from n`)
	return database, err
}

func openQueries(database *sql.DB) (*Queries, error) {
	cache, err := larder.Open(larder.Options{Memory: 16 << 20, StaleFor: 10 * time.Minute, LoadTimeout: 5 * time.Second})
	return &Queries{DB: database, Cache: cache, TTL: time.Second}, err
}

func main() {
	database, err := openShop()
	if err != nil {
		log.Fatal(err)
	}
	defer database.Close()
	queries, err := openQueries(database)
	if err != nil {
		log.Fatal(err)
	}
	defer queries.Cache.Close()
	if err := run(context.Background(), queries); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, queries *Queries) error {
	one := func() (Report, error) { return report(ctx, queries, 7) }
	for _, step := range []struct {
		what string
		wait time.Duration
		do   func() (Report, error)
	}{
		{"eight concurrent callers", 0, func() (Report, error) { return queryConcurrently(ctx, queries, 8) }},
		{"the same again", 0, one},
		{"after a sale", 0, func() (Report, error) {
			if err := sell(ctx, queries, 7, 1_000_000); err != nil {
				return Report{}, err
			}
			return one()
		}},
		{"the same again", 0, one},
		{"two seconds later: stale during a refresh", 2100 * time.Millisecond, one},
	} {
		time.Sleep(step.wait)
		if err := timed(queries, step.what, step.do); err != nil {
			return err
		}
	}
	return manyRequests(ctx, queries)
}

// timed runs a step, and prints its duration and the source of the result.
func timed(queries *Queries, what string, do func() (Report, error)) error {
	before, started := queries.Executed(), time.Now()
	answer, err := do()
	took := time.Since(started).Round(time.Microsecond)
	if err != nil {
		return err
	}
	// Wait for a background refresh, so that this step counts its query.
	time.Sleep(100 * time.Millisecond)
	from := "from the cache"
	if executed := queries.Executed() - before; executed > 0 {
		from = fmt.Sprintf("queries: %d", executed)
	}
	fmt.Printf("%-48s %12v   %-15s %v\n", what, took, from, answer)
	return nil
}

func queryConcurrently(ctx context.Context, queries *Queries, callers int) (Report, error) {
	answers, errs := make([]Report, callers), make([]error, callers)
	var group sync.WaitGroup
	for caller := range callers {
		group.Add(1)
		go func() {
			defer group.Done()
			answers[caller], errs[caller] = report(ctx, queries, 7)
		}()
	}
	group.Wait()
	for caller, err := range errs {
		if err != nil {
			return Report{}, err
		}
		if answers[caller] != answers[0] {
			return Report{}, fmt.Errorf("concurrent callers got %v and %v", answers[0], answers[caller])
		}
	}
	return answers[0], nil
}

// manyRequests queries some cities more often than others, by Zipf's law.
func manyRequests(ctx context.Context, queries *Queries) error {
	const requests = 10_000
	cities := rand.NewZipf(rand.New(rand.NewSource(1)), 1.1, 1, 49)
	before, started := queries.Executed(), time.Now()
	for range requests {
		if _, err := report(ctx, queries, int(cities.Uint64())); err != nil {
			return err
		}
	}
	executed, took := queries.Executed()-before, time.Since(started)
	stats := queries.Cache.Stats()
	fmt.Printf("%d requests for fifty cities in %v: %d queries, %.1f %% from the cache; %d results take %d KiB\n",
		requests, took.Round(time.Millisecond), executed, 100*(1-float64(executed)/requests), stats.Items, stats.ItemBytes>>10)
	return nil
}
