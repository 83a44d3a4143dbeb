package scenario_test

import (
	"testing"

	"github.com/txcoord/txcoord/bench/scenario"
)

func TestAbout(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want string
	}{
		{[]float64{1, 3}, "mean 2.000, standard error 1.000, median 2.000"},
		{[]float64{5, 1, 3}, "mean 3.000, standard error 1.155, median 3.000"},
		{[]float64{2, 2, 2, 2}, "mean 2.000, standard error 0.000, median 2.000"},
	} {
		if got := scenario.About(c.x); got != c.want {
			t.Errorf("%v: %s, want %s", c.x, got, c.want)
		}
	}
}
