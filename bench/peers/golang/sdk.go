package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// The Go SDK names no memory modes. Here "reusable" collects into the same ResourceMetrics each time, which
// lets the SDK reuse its slices, and "immutable" into a fresh one.
var sdkCases = []string{"reusable-cumulative", "reusable-delta", "immutable-cumulative", "immutable-delta"}

const collectionsPerOp = 100

type collection struct {
	reader *sdk.ManualReader
	reuse  bool
	number int64
	result *metricdata.ResourceMetrics
}

// observeOptions builds each attribute set, and the slice that hands it over, once: the cheapest form that
// the API has.
func observeOptions(sets int) [][]metric.ObserveOption {
	options := make([][]metric.ObserveOption, sets)
	for a := range options {
		state := uint64(a) + 1
		var value [26]byte
		for i := range value {
			state = state*6364136223846793005 + 1442695040888963407
			value[i] = 'a' + byte((state>>33)%26)
		}
		set := attribute.NewSet(attribute.String("key", string(value[:])))
		options[a] = []metric.ObserveOption{metric.WithAttributeSet(set)}
	}
	return options
}

func newCollection(name string, instruments, limit int, options [][]metric.ObserveOption) (*collection, error) {
	mode, temporality, _ := strings.Cut(name, "-")
	selected := metricdata.CumulativeTemporality
	if temporality == "delta" {
		selected = metricdata.DeltaTemporality
	}
	c := &collection{reuse: mode == "reusable", result: &metricdata.ResourceMetrics{}}
	c.reader = sdk.NewManualReader(sdk.WithTemporalitySelector(func(sdk.InstrumentKind) metricdata.Temporality {
		return selected
	}))
	provider := sdk.NewMeterProvider(
		sdk.WithReader(c.reader),
		sdk.WithExemplarFilter(exemplar.AlwaysOffFilter),
		sdk.WithCardinalityLimit(limit))
	meter := provider.Meter("bench")
	for i := range instruments {
		_, err := meter.Int64ObservableCounter(fmt.Sprintf("counter%d", i),
			metric.WithInt64Callback(func(_ context.Context, observer metric.Int64Observer) error {
				base := 100 * c.number
				for a, option := range options {
					observer.Observe(base+int64(a%100), option...)
				}
				return nil
			}))
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *collection) collect() error {
	c.number++
	if !c.reuse {
		c.result = &metricdata.ResourceMetrics{}
	}
	return c.reader.Collect(context.Background(), c.result)
}

// check refuses a run whose last collection lost points or whose values are wrong.
func (c *collection) check(instruments, sets int, delta bool) error {
	points := 0
	for _, scope := range c.result.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if !ok {
				return fmt.Errorf("%s is a %T", m.Name, m.Data)
			}
			points += len(sum.DataPoints)
			for _, point := range sum.DataPoints {
				least, most := 100*c.number, 100*c.number+99
				if delta {
					least, most = 100, 100
				}
				if point.Value < least || point.Value > most {
					return fmt.Errorf("%s holds %d at collection %d", m.Name, point.Value, c.number)
				}
			}
		}
	}
	if points != instruments*sets {
		return fmt.Errorf("the collection holds %d points instead of %d", points, instruments*sets)
	}
	return nil
}

func runSDK(name string, arguments []string) error {
	flags := flag.NewFlagSet("sdk", flag.ContinueOnError)
	instruments := flags.Int("instruments", 10, "observable counters")
	sets := flags.Int("sets", 1_000, "attribute sets of each counter")
	ops := flags.Int("ops", 5, "measured operations of 100 collections each")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *instruments < 1 || *sets < 1 || *ops < 1 {
		return fmt.Errorf("--instruments, --sets and --ops must be at least 1")
	}
	c, err := newCollection(name, *instruments, max(2_000, *sets+1), observeOptions(*sets))
	if err != nil {
		return err
	}
	var wall, processor []time.Duration
	var bytes, objects []uint64
	for op := range 2 + *ops {
		bytesBefore, objectsBefore := allocated()
		processorBefore, wallBefore := processorTime(), time.Now()
		for range collectionsPerOp {
			if err := c.collect(); err != nil {
				return err
			}
		}
		wallTaken, processorTaken := time.Since(wallBefore), processorTime()-processorBefore
		bytesAfter, objectsAfter := allocated()
		if op < 2 {
			continue // warm-up
		}
		wall, processor = append(wall, wallTaken), append(processor, processorTaken)
		bytes, objects = append(bytes, bytesAfter-bytesBefore), append(objects, objectsAfter-objectsBefore)
	}
	mode, temporality, _ := strings.Cut(name, "-")
	if err := c.check(*instruments, *sets, temporality == "delta"); err != nil {
		return err
	}
	points := float64(*instruments * *sets * collectionsPerOp)
	report("otel_go", "sdk", name,
		"mode="+mode, "temporality="+temporality, count("points_per_op", int(points)), count("ops", *ops),
		count("bytes_per_op", median(bytes)), count("allocations_per_op", median(objects)),
		number("ns_per_point", float64(median(wall).Nanoseconds())/points),
		number("cpu_ns_per_point", float64(median(processor).Nanoseconds())/points))
	return nil
}

func runSDKPeak(name string, arguments []string) error {
	flags := flag.NewFlagSet("sdk-peak", flag.ContinueOnError)
	instruments := flags.Int("instruments", 50, "observable counters")
	sets := flags.Int("sets", 100_000, "attribute sets of each counter")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *instruments < 1 || *sets < 1 {
		return fmt.Errorf("--instruments and --sets must be at least 1")
	}
	options := observeOptions(*sets)
	base := retained()
	c, err := newCollection(name, *instruments, *sets+1, options)
	if err != nil {
		return err
	}
	var wall time.Duration
	for range 4 {
		before := time.Now()
		if err := c.collect(); err != nil {
			return err
		}
		wall = time.Since(before)
	}
	kept := retained() - base
	mode, temporality, _ := strings.Cut(name, "-")
	if err := c.check(*instruments, *sets, temporality == "delta"); err != nil {
		return err
	}
	c.result = nil
	released := retained() - base
	runtime.KeepAlive(c)
	runtime.KeepAlive(options)
	points := *instruments * *sets
	report("otel_go", "sdk-peak", name,
		"mode="+mode, "temporality="+temporality, count("points", points), count("retained_bytes", kept),
		number("bytes_per_point", float64(kept)/float64(points)),
		number("bytes_per_point_released", float64(released)/float64(points)),
		number("last_collection_ns_per_point", float64(wall.Nanoseconds())/float64(points)))
	return nil
}
