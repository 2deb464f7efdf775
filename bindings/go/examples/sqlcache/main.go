// A cache before a SQL database: results are kept for a second, shown for ten minutes more while one caller asks the
// database anew, and forgotten at once when something is written.
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

	"larder"
)

// Report is what is asked for again and again.
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

// openShop makes a database of a hundred thousand sales in fifty cities.
func openShop() (*sql.DB, error) {
	database, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		return nil, err
	}
	// Each connection would have a memory of its own.
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
	if err := show(context.Background(), queries); err != nil {
		log.Fatal(err)
	}
}

func show(ctx context.Context, queries *Queries) error {
	one := func() (Report, error) { return report(ctx, queries, 7) }
	for _, step := range []struct {
		what string
		wait time.Duration
		do   func() (Report, error)
	}{
		{"eight ask at once", 0, func() (Report, error) { return askAtOnce(ctx, queries, 8) }},
		{"the same once more", 0, one},
		{"a sale is written, and asked after it", 0, func() (Report, error) {
			if err := sell(ctx, queries, 7, 1_000_000); err != nil {
				return Report{}, err
			}
			return one()
		}},
		{"the same once more", 0, one},
		{"two seconds later: shown while it is asked anew", 2100 * time.Millisecond, one},
	} {
		time.Sleep(step.wait)
		if err := timed(queries, step.what, step.do); err != nil {
			return err
		}
	}
	return manyRequests(ctx, queries)
}

// timed carries out a step, and prints how long it took and where the answer came from.
func timed(queries *Queries, what string, do func() (Report, error)) error {
	before, started := queries.Asked(), time.Now()
	answer, err := do()
	took := time.Since(started).Round(time.Microsecond)
	if err != nil {
		return err
	}
	// A refresh goes on in the background; here it is waited for, so that it is counted where it belongs.
	time.Sleep(100 * time.Millisecond)
	from := "from the cache"
	if asked := queries.Asked() - before; asked > 0 {
		from = fmt.Sprintf("queries: %d", asked)
	}
	fmt.Printf("%-48s %12v   %-15s %v\n", what, took, from, answer)
	return nil
}

func askAtOnce(ctx context.Context, queries *Queries, askers int) (Report, error) {
	answers, errs := make([]Report, askers), make([]error, askers)
	var group sync.WaitGroup
	for asker := range askers {
		group.Add(1)
		go func() {
			defer group.Done()
			answers[asker], errs[asker] = report(ctx, queries, 7)
		}()
	}
	group.Wait()
	for asker, err := range errs {
		if err != nil {
			return Report{}, err
		}
		if answers[asker] != answers[0] {
			return Report{}, fmt.Errorf("%v and %v at once", answers[0], answers[asker])
		}
	}
	return answers[0], nil
}

// manyRequests asks for some cities more than for others, as users do.
func manyRequests(ctx context.Context, queries *Queries) error {
	const requests = 10_000
	cities := rand.NewZipf(rand.New(rand.NewSource(1)), 1.1, 1, 49)
	before, started := queries.Asked(), time.Now()
	for range requests {
		if _, err := report(ctx, queries, int(cities.Uint64())); err != nil {
			return err
		}
	}
	asked, took := queries.Asked()-before, time.Since(started)
	stats := queries.Cache.Stats()
	fmt.Printf("%d requests for fifty cities in %v: %d queries, %.1f %% from the cache; %d answers take %d KiB\n",
		requests, took.Round(time.Millisecond), asked, 100*(1-float64(asked)/requests), stats.Items, stats.ItemBytes>>10)
	return nil
}
