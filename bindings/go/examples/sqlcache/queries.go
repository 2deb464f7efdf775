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

	"larder"
)

// Queries answers SQL queries from a cache, and asks the database for those that are not there.
type Queries struct {
	DB    *sql.DB
	Cache *larder.Cache
	// TTL is how long an answer is good for, in whole seconds. After it, for as long as the cache's StaleFor, callers still
	// get it at once while one of them asks the database anew.
	TTL time.Duration

	asked atomic.Int64
}

// Asked is how often the database has been asked.
func (q *Queries) Asked() int64 { return q.asked.Load() }

// Select gives the rows of a query of a table, each as scan makes it of a row. What it makes is kept as JSON.
//
// Many may ask at the same time: one asks the database, all get its answer. Errors are not kept.
func Select[T any](ctx context.Context, q *Queries, table string, scan func(*sql.Rows) (T, error),
	query string, args ...any) ([]T, error) {
	key, err := q.key(table, query, args)
	if err != nil {
		return nil, err
	}
	answer, err := q.Cache.GetOrLoad(ctx, key, func(ctx context.Context, _ string) ([]byte, time.Duration, error) {
		rows, err := ask(ctx, q, scan, query, args)
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

func ask[T any](ctx context.Context, q *Queries, scan func(*sql.Rows) (T, error), query string, args []any) ([]T, error) {
	q.asked.Add(1)
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

// Exec changes a table. When it has returned, no answer of before is given any more; also where it failed, for it may have
// changed something all the same.
func (q *Queries) Exec(ctx context.Context, table, statement string, args ...any) error {
	_, failed := q.DB.ExecContext(ctx, statement, args...)
	_, err := q.Cache.Incr(generationKey(table), 1)
	if errors.Is(err, larder.ErrNotFound) {
		_, err = q.generation(table)
	}
	return errors.Join(failed, err)
}

// key is where the answer of a query is kept. The table's generation is part of it: who changes the table changes the
// generation, and nobody asks for the old keys any more. A query that was under way meanwhile is kept under the old key,
// so that what it has read does not outlive the change.
func (q *Queries) key(table, query string, args []any) (string, error) {
	generation, err := q.generation(table)
	if err != nil {
		return "", err
	}
	// Queries may be longer than keys.
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %#v", query, args))
	return fmt.Sprintf("rows:%s:%s:%x", table, generation, sum[:16]), nil
}

// generation is the table's, a new one where there is none, or where it has been evicted: then the time makes it one that
// has not been there before.
func (q *Queries) generation(table string) (string, error) {
	for {
		value, _, err := q.Cache.GetInto(nil, generationKey(table))
		if !errors.Is(err, larder.ErrNotFound) {
			return string(value), err
		}
		now := strconv.FormatInt(time.Now().UnixNano(), 10)
		if _, err := q.Cache.Add(generationKey(table), []byte(now), 0); err != nil {
			return "", err
		}
	}
}

func generationKey(table string) string { return "generation:" + table }
