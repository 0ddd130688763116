package main

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// readExpfmtText sorts the families by name, since expfmt answers with a map.
func readExpfmtText(body []byte, lines *lines) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if err := writeFamily(families[name], lines); err != nil {
			return err
		}
	}
	return nil
}

func readExpfmtProtobuf(body []byte, lines *lines) error {
	format := expfmt.NewFormat(expfmt.TypeProtoDelim).WithEscapingScheme(model.NoEscaping)
	decoder := expfmt.NewDecoder(bytes.NewReader(body), format)
	for {
		var family dto.MetricFamily
		err := decoder.Decode(&family)
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := refuseUnknownFields(&family); err != nil {
			return err
		}
		if err := writeFamily(&family, lines); err != nil {
			return err
		}
	}
}

func writeFamily(family *dto.MetricFamily, lines *lines) error {
	name := family.GetName()
	kind := text(strings.ToLower(family.GetType().String()))
	switch family.GetType() {
	case dto.MetricType_UNTYPED:
		kind = "unknown"
	case dto.MetricType_GAUGE_HISTOGRAM:
		kind = "gaugehistogram"
	}
	lines.family(text(name), &kind, (*text)(family.Help), (*text)(family.Unit))
	for _, metric := range family.GetMetric() {
		if err := writeMetric(family, metric, lines); err != nil {
			return err
		}
	}
	return nil
}

// writeMetric flattens a metric into the samples that its text form has.
func writeMetric(family *dto.MetricFamily, metric *dto.Metric, lines *lines) error {
	name := family.GetName()
	plain := sampleLine{Name: text(name), TimestampMs: metric.TimestampMs}
	set := func(extra ...label) []label {
		all := make([]label, 0, len(metric.GetLabel())+len(extra))
		for _, pair := range metric.GetLabel() {
			all = append(all, label{text(pair.GetName()), text(pair.GetValue())})
		}
		return append(all, extra...)
	}
	emit := func(suffix string, value float64, exemplar *dto.Exemplar, extra ...label) {
		line := plain
		line.Name += text(suffix)
		line.Labels, line.Value, line.Exemplars = set(extra...), bits(value), exemplars(exemplar)
		lines.sample(line)
	}
	switch {
	case metric.Counter != nil:
		plain.CreatedMs, plain.CreatedNs = stamp(metric.Counter.CreatedTimestamp)
		emit("", metric.Counter.GetValue(), metric.Counter.Exemplar)
	case metric.Gauge != nil:
		emit("", metric.Gauge.GetValue(), nil)
	case metric.Untyped != nil:
		emit("", metric.Untyped.GetValue(), nil)
	case metric.Summary != nil:
		summary := metric.Summary
		plain.CreatedMs, plain.CreatedNs = stamp(summary.CreatedTimestamp)
		for _, quantile := range summary.Quantile {
			emit("", quantile.GetValue(), nil, label{"quantile", text(labels.FormatOpenMetricsFloat(quantile.GetQuantile()))})
		}
		if summary.SampleSum != nil {
			emit("_sum", summary.GetSampleSum(), nil)
		}
		if summary.SampleCount != nil {
			emit("_count", float64(summary.GetSampleCount()), nil)
		}
	case metric.Histogram != nil:
		histogram := metric.Histogram
		plain.CreatedMs, plain.CreatedNs = stamp(histogram.CreatedTimestamp)
		if isNative(histogram) {
			line, err := nativeHistogram(family, histogram)
			if err != nil {
				return err
			}
			line.Labels, line.TimestampMs = set(), metric.TimestampMs
			line.CreatedMs, line.CreatedNs = plain.CreatedMs, plain.CreatedNs
			lines.histogram(line)
			if len(histogram.Bucket) == 0 {
				return nil
			}
		}
		for _, bucket := range histogram.Bucket {
			count := float64(bucket.GetCumulativeCount())
			if bucket.GetCumulativeCountFloat() > 0 {
				count = bucket.GetCumulativeCountFloat()
			}
			emit("_bucket", count, bucket.Exemplar, label{"le", text(labels.FormatOpenMetricsFloat(bucket.GetUpperBound()))})
		}
		if histogram.SampleSum != nil {
			emit("_sum", histogram.GetSampleSum(), nil)
		}
		if histogram.SampleCountFloat != nil {
			emit("_count", histogram.GetSampleCountFloat(), nil)
		} else if histogram.SampleCount != nil {
			emit("_count", float64(histogram.GetSampleCount()), nil)
		}
	default:
		return errors.New("a metric of " + name + " has no value")
	}
	return nil
}

// isNative is more willing than Prometheus: a schema alone tells what the writer meant.
func isNative(histogram *dto.Histogram) bool {
	return histogram.Schema != nil || histogram.ZeroThreshold != nil || histogram.ZeroCount != nil ||
		histogram.ZeroCountFloat != nil || len(histogram.PositiveSpan) > 0 || len(histogram.NegativeSpan) > 0
}

func nativeHistogram(family *dto.MetricFamily, histogram *dto.Histogram) (histogramLine, error) {
	line := histogramLine{
		Name:          text(family.GetName()),
		Float:         histogram.GetSampleCountFloat() > 0 || histogram.GetZeroCountFloat() > 0,
		Gauge:         family.GetType() == dto.MetricType_GAUGE_HISTOGRAM,
		Schema:        histogram.GetSchema(),
		ZeroThreshold: bits(histogram.GetZeroThreshold()),
		Sum:           bits(histogram.GetSampleSum()),
		CustomValues:  []bits{},
		Exemplars:     exemplars(histogram.Exemplars...),
	}
	positive, negative := spans(histogram.PositiveSpan), spans(histogram.NegativeSpan)
	var err error
	if line.Float {
		line.Count, line.ZeroCount = bits(histogram.GetSampleCountFloat()), bits(histogram.GetZeroCountFloat())
		if line.Positive, err = newBucketSide(positive, histogram.PositiveCount); err != nil {
			return line, err
		}
		line.Negative, err = newBucketSide(negative, histogram.NegativeCount)
		return line, err
	}
	line.Count, line.ZeroCount = histogram.GetSampleCount(), histogram.GetZeroCount()
	if line.Positive, err = sideOfDeltas(positive, histogram.PositiveDelta); err != nil {
		return line, err
	}
	line.Negative, err = sideOfDeltas(negative, histogram.NegativeDelta)
	return line, err
}

func sideOfDeltas(spans [][2]int64, deltas []int64) (bucketSide, error) {
	counts, err := absolute(deltas)
	if err != nil {
		return bucketSide{}, err
	}
	return newBucketSide(spans, counts)
}

func spans(given []*dto.BucketSpan) [][2]int64 {
	pairs := make([][2]int64, len(given))
	for i, span := range given {
		pairs[i] = [2]int64{int64(span.GetOffset()), int64(span.GetLength())}
	}
	return pairs
}

func exemplars(given ...*dto.Exemplar) []exemplarValue {
	values := []exemplarValue{}
	for _, exemplar := range given {
		if exemplar == nil {
			continue
		}
		var set []label
		for _, pair := range exemplar.GetLabel() {
			set = append(set, label{text(pair.GetName()), text(pair.GetValue())})
		}
		value := exemplarValue{Labels: sortedLabels(set), Value: bits(exemplar.GetValue())}
		value.TimestampMs, value.TimestampNs = stamp(exemplar.Timestamp)
		values = append(values, value)
	}
	return values
}

// stamp cuts to milliseconds as Prometheus does, and gives the nanoseconds beside.
func stamp(timestamp *timestamppb.Timestamp) (milliseconds, nanoseconds *int64) {
	if timestamp == nil {
		return nil, nil
	}
	ms := timestamp.GetSeconds()*1_000 + int64(timestamp.GetNanos())/1_000_000
	ns := timestamp.GetSeconds()*1_000_000_000 + int64(timestamp.GetNanos())
	return &ms, &ns
}
