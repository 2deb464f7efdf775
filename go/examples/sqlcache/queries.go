package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"larder.example/larder"
)

// Queries caches the results of SQL queries.
type Queries struct {
	DB    *sql.DB
	Cache *larder.Cache
	// TTL is how long a result is fresh, in whole seconds. For the cache's StaleFor after that,
	// callers still receive it immediately while one of them refreshes it.
	TTL time.Duration

	executed atomic.Int64
}

// Executed returns the number of queries that the database has executed.
func (q *Queries) Executed() int64 { return q.executed.Load() }

// Select returns the rows of a query of a table, converted by scan. The results are stored as JSON.
//
// Concurrent callers share one execution of the query. Errors are not stored.
func Select[T any](ctx context.Context, q *Queries, table string, scan func(*sql.Rows) (T, error),
	query string, args ...any) ([]T, error) {
	key, err := q.key(table, query, args)
	if err != nil {
		return nil, err
	}
	answer, err := q.Cache.GetOrLoad(ctx, key, func(ctx context.Context, _ string) ([]byte, time.Duration, error) {
		rows, err := execute(ctx, q, scan, query, args)
		if err != nil {
			return nil, 0, err
		}
		answer, err := json.Marshal(rows)
		return answer, q.TTL, err
	})
	if err != nil {
		return nil, err
	}
	var rows []T
	return rows, json.Unmarshal(answer, &rows)
}

func execute[T any](ctx context.Context, q *Queries, scan func(*sql.Rows) (T, error), query string, args []any) ([]T, error) {
	q.executed.Add(1)
	found, err := q.DB.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	rows := []T{}
	for found.Next() {
		row, err := scan(found)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, found.Err()
}

// Exec changes a table. After it returns, no caller receives a result from before the change. This
// is also true if it returns an error, because a failed statement may have had an effect.
func (q *Queries) Exec(ctx context.Context, table, statement string, args ...any) error {
	_, failed := q.DB.ExecContext(ctx, statement, args...)
	_, err := q.Cache.Incr(generationKey(table), 1)
	if errors.Is(err, larder.ErrNotFound) {
		_, err = q.generation(table)
	}
	return errors.Join(failed, err)
}

// key returns the cache key of a query. It contains the table's generation, which every change of
// the table increases, so that later queries use other keys. A query in progress during a change
// stores its result under the old key, where no later query finds it.
func (q *Queries) key(table, query string, args []any) (string, error) {
	generation, err := q.generation(table)
	if err != nil {
		return "", err
	}
	// Queries may exceed the length of a key.
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %#v", query, args))
	return fmt.Sprintf("rows:%s:%s:%x", table, generation, sum[:16]), nil
}

// generation returns the generation of a table, a text in the cache. If the cache does not have it,
// because it was never stored or was evicted, the generation becomes the current time, which no
// earlier generation can be equal to.
func (q *Queries) generation(table string) (string, error) {
	for {
		if value, ok := q.Cache.Get(generationKey(table)); ok {
			return string(value), nil
		}
		now := strconv.FormatInt(time.Now().UnixNano(), 10)
		if _, err := q.Cache.Add(generationKey(table), []byte(now), 0); err != nil {
			return "", err
		}
	}
}

func generationKey(table string) string { return "generation:" + table }
