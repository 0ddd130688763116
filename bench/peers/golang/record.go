package main

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

var bounds = []float64{5, 10, 25, 50, 75, 100, 250, 500, 750, 1000}

const (
	method = "GET"
	route  = "/api/queues/:vhost/:name"
	status = "200"
)

// recordCase is one operation in a loop; the loop is inside so that no call through a variable is timed.
type recordCase struct {
	name    string
	threads int
	loop    func(operations int)
}

func runRecord(library string, arguments []string) error {
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	operations := flags.Int("operations", 1_000_000, "operations of a round, per thread")
	rounds := flags.Int("rounds", 11, "measured rounds")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *operations < 1 || *rounds < 1 {
		return fmt.Errorf("--operations and --rounds must be at least 1")
	}
	cases, recorded, err := otelCases()
	if library == "client_golang" {
		cases, recorded, err = prometheusCases()
	}
	if err != nil {
		return err
	}
	var expected uint64
	for _, c := range cases {
		expected += uint64((*rounds + 2) * *operations * c.threads)
		measureRecord(library, c, *operations, *rounds)
	}
	got, err := recorded()
	if err == nil && got != expected {
		err = fmt.Errorf("%d operations left %d", expected, got)
	}
	return err
}

func measureRecord(library string, c recordCase, operations, rounds int) {
	var nanoseconds, perOperation, bytesPerOperation []float64
	for round := range 2 + rounds {
		bytesBefore, objectsBefore := allocated()
		var wall time.Duration
		if c.threads == 1 {
			before := time.Now()
			c.loop(operations)
			wall = time.Since(before)
		} else {
			wall = together(c, operations)
		}
		bytesAfter, objectsAfter := allocated()
		if round < 2 {
			continue // warm-up
		}
		nanoseconds = append(nanoseconds, float64(wall.Nanoseconds())/float64(operations))
		perOperation = append(perOperation, float64(objectsAfter-objectsBefore)/float64(operations*c.threads))
		bytesPerOperation = append(bytesPerOperation, float64(bytesAfter-bytesBefore)/float64(operations*c.threads))
	}
	report(library, "record", c.name,
		count("operations", operations), count("threads", c.threads),
		number("ns_per_op", median(nanoseconds)),
		fmt.Sprintf("allocations_per_op=%.2f", median(perOperation)),
		fmt.Sprintf("bytes_per_op=%.1f", median(bytesPerOperation)))
}

// together starts all threads at one signal and waits for the last.
func together(c recordCase, operations int) time.Duration {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for range c.threads {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-begin
			c.loop(operations)
		})
	}
	ready.Wait()
	before := time.Now()
	close(begin)
	done.Wait()
	return time.Since(before)
}

func otelCases() ([]recordCase, func() (uint64, error), error) {
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithView(sdk.NewView(
		sdk.Instrument{Name: "native"},
		sdk.Stream{Aggregation: sdk.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 20}})))
	meter := provider.Meter("bench")
	counter, err := meter.Int64Counter("requests")
	if err != nil {
		return nil, nil, err
	}
	histogram, err := meter.Float64Histogram("latency", metric.WithExplicitBucketBoundaries(bounds...))
	if err != nil {
		return nil, nil, err
	}
	native, err := meter.Float64Histogram("native")
	if err != nil {
		return nil, nil, err
	}
	keys := [3]string{"http.request.method", "http.route", "http.response.status_code"}
	set := attribute.NewSet(attribute.String(keys[0], method), attribute.String(keys[1], route), attribute.String(keys[2], status))
	addBuilt := []metric.AddOption{metric.WithAttributeSet(set)}
	recordBuilt := []metric.RecordOption{metric.WithAttributeSet(set)}
	ctx := context.Background()

	bound := func(operations int) {
		for range operations {
			counter.Add(ctx, 1, addBuilt...)
		}
	}
	unbound := func(operations int) {
		for range operations {
			counter.Add(ctx, 1, metric.WithAttributes(
				attribute.String(keys[0], method), attribute.String(keys[1], route), attribute.String(keys[2], status)))
		}
	}
	reordered := func(operations int) {
		for range operations {
			counter.Add(ctx, 1, metric.WithAttributes(
				attribute.String(keys[2], status), attribute.String(keys[1], route), attribute.String(keys[0], method)))
		}
	}
	cases := []recordCase{
		{"bound", 1, bound},
		{"unbound3", 1, unbound},
		{"reordered3", 1, reordered},
		{"histogram", 1, func(operations int) {
			for n := range operations {
				histogram.Record(ctx, float64(n*7919%1009), recordBuilt...)
			}
		}},
		{"histogram_native", 1, func(operations int) {
			for n := range operations {
				native.Record(ctx, float64(n*7919%1009), recordBuilt...)
			}
		}},
		{"histogram_unbound3", 1, func(operations int) {
			for n := range operations {
				histogram.Record(ctx, float64(n*7919%1009), metric.WithAttributes(
					attribute.String(keys[0], method), attribute.String(keys[1], route), attribute.String(keys[2], status)))
			}
		}},
		{"contended2", 2, bound},
		{"contended2_unbound3", 2, unbound},
	}
	return cases, func() (uint64, error) { return otelRecorded(reader) }, nil
}

// otelRecorded adds up what arrived, and refuses to find it in more than one series.
func otelRecorded(reader *sdk.ManualReader) (uint64, error) {
	var result metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &result); err != nil {
		return 0, err
	}
	var total uint64
	for _, m := range result.ScopeMetrics[0].Metrics {
		points := 0
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			points = len(data.DataPoints)
			total += uint64(data.DataPoints[0].Value)
		case metricdata.Histogram[float64]:
			points = len(data.DataPoints)
			total += data.DataPoints[0].Count
		case metricdata.ExponentialHistogram[float64]:
			points = len(data.DataPoints)
			total += data.DataPoints[0].Count
		}
		if points != 1 {
			return 0, fmt.Errorf("%s holds %d series", m.Name, points)
		}
	}
	return total, nil
}

func prometheusCases() ([]recordCase, func() (uint64, error), error) {
	labels := []string{"http_request_method", "http_route", "http_response_status_code"}
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests", Help: "Requests"}, labels)
	latencies := prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Name: "latency", Help: "Latency", Buckets: bounds}, labels)
	natives := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "native", Help: "Latency", NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160}, labels)
	registry := prometheus.NewRegistry()
	for _, collector := range []prometheus.Collector{requests, latencies, natives} {
		if err := registry.Register(collector); err != nil {
			return nil, nil, err
		}
	}
	counter := requests.WithLabelValues(method, route, status)
	histogram := latencies.WithLabelValues(method, route, status)
	native := natives.WithLabelValues(method, route, status)

	bound := func(operations int) {
		for range operations {
			counter.Inc()
		}
	}
	unbound := func(operations int) {
		for range operations {
			requests.WithLabelValues(method, route, status).Inc()
		}
	}
	cases := []recordCase{
		{"bound", 1, bound},
		{"unbound3", 1, unbound},
		// Values are given by position: only the map takes them in another order.
		{"unbound3_map", 1, func(operations int) {
			for range operations {
				requests.With(prometheus.Labels{labels[0]: method, labels[1]: route, labels[2]: status}).Inc()
			}
		}},
		{"reordered3", 1, func(operations int) {
			for range operations {
				requests.With(prometheus.Labels{labels[2]: status, labels[1]: route, labels[0]: method}).Inc()
			}
		}},
		{"histogram", 1, func(operations int) {
			for n := range operations {
				histogram.Observe(float64(n * 7919 % 1009))
			}
		}},
		{"histogram_native", 1, func(operations int) {
			for n := range operations {
				native.Observe(float64(n * 7919 % 1009))
			}
		}},
		{"histogram_unbound3", 1, func(operations int) {
			for n := range operations {
				latencies.WithLabelValues(method, route, status).Observe(float64(n * 7919 % 1009))
			}
		}},
		{"contended2", 2, bound},
		{"contended2_unbound3", 2, unbound},
	}
	return cases, func() (uint64, error) { return prometheusRecorded(registry) }, nil
}

func prometheusRecorded(registry *prometheus.Registry) (uint64, error) {
	gathered, err := registry.Gather()
	if err != nil {
		return 0, err
	}
	var total uint64
	for _, family := range gathered {
		if len(family.Metric) != 1 {
			return 0, fmt.Errorf("%s holds %d series", family.GetName(), len(family.Metric))
		}
		total += uint64(family.Metric[0].GetCounter().GetValue()) + family.Metric[0].GetHistogram().GetSampleCount()
	}
	return total, nil
}
