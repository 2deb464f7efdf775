package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"larder.example/larder"
	"larder.example/larder/typed"
)

func open(t testing.TB) *larder.Cache {
	t.Helper()
	cache, err := larder.Open(larder.Options{Memory: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	return cache
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// collect returns the values of all metrics as "name cache value".
func collect(t *testing.T, reader *metric.ManualReader) (lines []string) {
	t.Helper()
	var all metricdata.ResourceMetrics
	noError(t, reader.Collect(t.Context(), &all))
	add := func(name string, points []metricdata.DataPoint[int64]) {
		for _, point := range points {
			cache, _ := point.Attributes.Value("cache")
			lines = append(lines, fmt.Sprintf("%s %s %d", name, cache.AsString(), point.Value))
		}
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				if !data.IsMonotonic {
					t.Errorf("%s is not monotonic", m.Name)
				}
				add(m.Name, data.DataPoints)
			case metricdata.Gauge[int64]:
				add(m.Name, data.DataPoints)
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
		}
	}
	return lines
}

func TestMetricsShowTheStatisticsOfEachCache(t *testing.T) {
	reader := metric.NewManualReader()
	meter := metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")
	pages, users := open(t), open(t)
	registration, err := Metrics(meter, "pages", pages.Stats)
	noError(t, err)
	_, err = Metrics(meter, "users", users.Stats)
	noError(t, err)
	noError(t, pages.Set("k", []byte("v"), 0))
	pages.Get("k")
	pages.Get("none")
	pages.Get("none")
	lines := collect(t, reader)
	for _, want := range []string{
		"larder.cache.hits pages 1", "larder.cache.misses pages 2", "larder.cache.stores pages 1",
		"larder.cache.items pages 1", "larder.cache.memory.limit pages 8388608", "larder.cache.hits users 0",
		"larder.cache.items users 0",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	if want := 2 * (len(counters) + len(gauges)); len(lines) != want {
		t.Errorf("%d values, want %d", len(lines), want)
	}
	noError(t, registration.Unregister())
	for _, line := range collect(t, reader) {
		if strings.Contains(line, "pages") {
			t.Errorf("%q after Unregister", line)
		}
	}
}

// spans returns the spans of a recorder as "name attributes status", in the order in which they
// ended.
func spans(recorder *tracetest.SpanRecorder) (lines []string) {
	for _, span := range recorder.Ended() {
		line := span.Name()
		for _, a := range span.Attributes() {
			line += fmt.Sprintf(" %s=%v", a.Key, a.Value.AsInterface())
		}
		if description := span.Status().Description; description != "" {
			line += " failed: " + description
		}
		for _, event := range span.Events() {
			line += " [" + event.Name + "]"
		}
		lines = append(lines, line)
	}
	return lines
}

func TestEachCallHasASpan(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(recorder)).Tracer("test")
	cache := open(t)
	store := Store(cache.Store(), Options{Name: "pages", Tracer: tracer, WithKeys: true}).(observedAll)
	ctx := t.Context()
	_, err := store.Get(ctx, "k")
	if !errors.Is(err, larder.ErrNotFound) {
		t.Errorf("Get: %v, want %v", err, larder.ErrNotFound)
	}
	noError(t, store.Set(ctx, "k", []byte("value"), 0))
	value, err := store.Get(ctx, "k")
	noError(t, err)
	if string(value) != "value" {
		t.Errorf("Get = %q, want value", value)
	}
	noError(t, store.GetMany(ctx, []string{"k", "none"}, func(int, []byte) {}))
	_, err = store.Touch(ctx, "none", time.Minute)
	noError(t, err)
	noError(t, store.Delete(ctx, "k"))
	if err := store.Set(ctx, "", nil, 0); !errors.Is(err, larder.ErrKey) {
		t.Errorf("Set of an empty key: %v", err)
	}
	want := `cache get cache=pages key=k hit=false
cache set cache=pages key=k bytes=5
cache get cache=pages key=k hit=true
cache get_many cache=pages keys=2 hits=1
cache touch cache=pages key=none hit=false
cache delete cache=pages key=k
cache set cache=pages bytes=0 failed: larder: invalid key: expected 1 to 250 bytes, got 0: use a digest of a long key [exception]`
	if got := strings.Join(spans(recorder), "\n"); got != want {
		t.Errorf("spans:\n%s\nwant:\n%s", got, want)
	}
}

func TestALoadIsAChildOfItsCall(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(recorder)).Tracer("test")
	store := Store(open(t).Store(), Options{Name: "pages", Tracer: tracer})
	numbers := typed.New(store, typed.Options[string, int]{})
	number, err := numbers.GetOrLoad(t.Context(), "n", func(context.Context, string) (int, time.Duration, error) {
		return 42, 0, nil
	})
	noError(t, err)
	if number != 42 {
		t.Errorf("GetOrLoad = %d, want 42", number)
	}
	ended := recorder.Ended()
	if got := strings.Join(spans(recorder), ", "); got != "cache load cache=pages bytes=2, cache get_or_load cache=pages" {
		t.Fatalf("spans: %s", got)
	}
	if ended[0].Parent().SpanID() != ended[1].SpanContext().SpanID() {
		t.Error("the span of the load is not a child of the span of the call")
	}
}

func TestFailuresAndSlowCallsAreLogged(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "took" && a.Value.Duration() > 0 {
				return slog.Attr{}
			}
			return a
		},
	}))
	store := Store(open(t).Store(), Options{Name: "pages", Logger: logger, Slow: 20 * time.Millisecond}).(observedAll)
	_, _ = store.Get(t.Context(), "none")
	_ = store.Set(t.Context(), "", nil, 0)
	broken := errors.New("no database")
	_, err := store.GetOrLoad(t.Context(), "k", func(context.Context, string) ([]byte, time.Duration, error) {
		return nil, 0, broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("GetOrLoad: %v", err)
	}
	_, err = store.GetOrLoad(t.Context(), "k", func(context.Context, string) ([]byte, time.Duration, error) {
		time.Sleep(30 * time.Millisecond)
		return []byte("v"), 0, nil
	})
	noError(t, err)
	want := `level=WARN msg="cache call failed" cache=pages call=set error="larder: invalid key: expected 1 to 250 bytes, got 0: use a digest of a long key"
level=WARN msg="cache call failed" cache=pages call=load error="no database"
level=WARN msg="cache call failed" cache=pages call=get_or_load error="no database"
level=WARN msg="slow cache call" cache=pages call=load
level=WARN msg="slow cache call" cache=pages call=get_or_load
`
	if log.String() != want {
		t.Errorf("log:\n%s\nwant:\n%s", log.String(), want)
	}
}

// plain is a store that has only the methods of [larder.Store].
type plain struct{ larder.Store }

func TestAPlainStoreStaysPlain(t *testing.T) {
	store := Store(plain{open(t).Store()}, Options{})
	if _, isMany := store.(larder.ManyStore); isMany {
		t.Error("the store has methods that the given one lacks")
	}
	noError(t, store.Set(t.Context(), "k", []byte("v"), 0))
	value, err := store.Get(t.Context(), "k")
	noError(t, err)
	if string(value) != "v" {
		t.Errorf("Get = %q, want v", value)
	}
}
