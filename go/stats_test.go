package larder

import (
	"encoding/json"
	"expvar"
	"net/http"
	"net/http/httptest"
	"testing"

	"larder.example/larder/internal/check"
)

// A cache must be a variable of package expvar, otherwise /debug/vars does not show it.
var _ expvar.Var = (*Cache)(nil)

func TestDebugVarsShowThePublishedCache(t *testing.T) {
	cache := openCache(t, Options{})
	expvar.Publish("TestDebugVarsShowThePublishedCache", cache)
	set(t, cache, "k", "v")
	for _, key := range []string{"k", "k", "k", "none"} {
		cache.Get(key)
	}
	type published struct {
		Stats
		HitRate float64
	}
	read := func() published {
		response := httptest.NewRecorder()
		expvar.Handler().ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/debug/vars", nil))
		var variables struct {
			Cache published `json:"TestDebugVarsShowThePublishedCache"`
		}
		if err := json.Unmarshal(response.Body.Bytes(), &variables); err != nil {
			t.Fatalf("/debug/vars is not JSON: %v: %s", err, response.Body)
		}
		return variables.Cache
	}
	check.Equal(t, "published statistics", read(), published{cache.Stats(), 0.75})
	_ = cache.Close()
	check.Equal(t, "published statistics of a closed cache", read(), published{})
}
