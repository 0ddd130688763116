package main

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
)

type attribute struct {
	key   string
	value any
}

func (a attribute) MarshalJSON() ([]byte, error) {
	return marshal([]any{text(a.key), a.value})
}

type resourceLine struct {
	head
	Attributes        []attribute `json:"attributes"`
	DroppedAttributes uint32      `json:"dropped_attributes"`
	SchemaURL         text        `json:"schema_url"`
}

type scopeLine struct {
	head
	Name              text        `json:"name"`
	Version           text        `json:"version"`
	Attributes        []attribute `json:"attributes"`
	DroppedAttributes uint32      `json:"dropped_attributes"`
	SchemaURL         text        `json:"schema_url"`
}

type metricLine struct {
	head
	Name        text        `json:"name"`
	Description text        `json:"description"`
	Unit        text        `json:"unit"`
	Type        string      `json:"type"`
	Temporality string      `json:"temporality,omitempty"`
	Monotonic   *bool       `json:"monotonic,omitempty"`
	Metadata    []attribute `json:"metadata"`
}

type otlpExemplar struct {
	Attributes []attribute `json:"attributes"`
	TimeNs     uint64      `json:"time_ns"`
	Value      any         `json:"value"`
	TraceID    string      `json:"trace_id"`
	SpanID     string      `json:"span_id"`
}

// pointLine is a point of any type; the fields that its type does not have are left out.
type pointLine struct {
	head
	Attributes    []attribute    `json:"attributes"`
	StartNs       uint64         `json:"start_ns"`
	TimeNs        uint64         `json:"time_ns"`
	Flags         uint32         `json:"flags"`
	Value         any            `json:"value,omitempty"`
	Count         *uint64        `json:"count,omitempty"`
	Sum           *bits          `json:"sum,omitempty"`
	Min           *bits          `json:"min,omitempty"`
	Max           *bits          `json:"max,omitempty"`
	Bounds        []bits         `json:"bounds,omitempty"`
	BucketCounts  []uint64       `json:"bucket_counts,omitempty"`
	Scale         *int32         `json:"scale,omitempty"`
	ZeroCount     *uint64        `json:"zero_count,omitempty"`
	ZeroThreshold *bits          `json:"zero_threshold,omitempty"`
	Positive      *otlpBuckets   `json:"positive,omitempty"`
	Negative      *otlpBuckets   `json:"negative,omitempty"`
	Quantiles     [][2]bits      `json:"quantiles,omitempty"`
	Exemplars     []otlpExemplar `json:"exemplars"`
}

type otlpBuckets struct {
	Offset int32    `json:"offset"`
	Counts []uint64 `json:"counts"`
}

func readOTLP(body []byte, lines *lines) error {
	var request collector.ExportMetricsServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		return err
	}
	if err := refuseUnknownFields(&request); err != nil {
		return err
	}
	for r, resource := range request.ResourceMetrics {
		lines.write(resourceLine{lines.head("resource"), attributes(resource.Resource.GetAttributes()),
			resource.Resource.GetDroppedAttributesCount(), text(resource.SchemaUrl)})
		for s, scope := range resource.ScopeMetrics {
			lines.write(scopeLine{lines.head("scope"), text(scope.Scope.GetName()), text(scope.Scope.GetVersion()),
				attributes(scope.Scope.GetAttributes()), scope.Scope.GetDroppedAttributesCount(), text(scope.SchemaUrl)})
			for _, metric := range scope.Metrics {
				place := fmt.Sprintf("%d/%d/%s", r, s, metric.Name)
				if err := writeOTLPMetric(metric, place, lines); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// refuseUnknownFields makes a wrong field number visible: a decoder would keep it silently.
func refuseUnknownFields(message proto.Message) error {
	return protorange.Range(message.ProtoReflect(), func(values protopath.Values) error {
		if message, ok := values.Index(-1).Value.Interface().(protoreflect.Message); ok {
			if unknown := message.GetUnknown(); len(unknown) > 0 {
				return fmt.Errorf("%s has unknown fields: %x", values.Path, []byte(unknown))
			}
		}
		return nil
	})
}

// writeOTLPMetric takes the place of the metric in the request: names are unique within their scope.
func writeOTLPMetric(metric *metrics.Metric, place string, lines *lines) error {
	line := metricLine{head: lines.head("metric"), Name: text(metric.Name), Description: text(metric.Description),
		Unit: text(metric.Unit), Metadata: attributes(metric.Metadata)}
	var points []pointLine
	switch data := metric.Data.(type) {
	case *metrics.Metric_Gauge:
		line.Type = "gauge"
		points = numberPoints(data.Gauge.DataPoints)
	case *metrics.Metric_Sum:
		line.Type, line.Temporality, line.Monotonic = "sum", temporality(data.Sum.AggregationTemporality), &data.Sum.IsMonotonic
		points = numberPoints(data.Sum.DataPoints)
	case *metrics.Metric_Histogram:
		line.Type, line.Temporality = "histogram", temporality(data.Histogram.AggregationTemporality)
		points = histogramPoints(data.Histogram.DataPoints)
	case *metrics.Metric_ExponentialHistogram:
		line.Type, line.Temporality = "exponential_histogram", temporality(data.ExponentialHistogram.AggregationTemporality)
		points = exponentialPoints(data.ExponentialHistogram.DataPoints)
	case *metrics.Metric_Summary:
		line.Type = "summary"
		points = summaryPoints(data.Summary.DataPoints)
	default:
		return fmt.Errorf("metric %q has no data", metric.Name)
	}
	lines.closing.Families++
	lines.enterFamily(text(place))
	lines.write(line)
	for i := range points {
		set, err := marshal(points[i].Attributes)
		if err != nil {
			return err
		}
		points[i].head = lines.head("point")
		lines.countKey(fmt.Sprintf("%s %s %d", place, set, points[i].TimeNs))
		lines.write(points[i])
	}
	return nil
}

func temporality(given metrics.AggregationTemporality) string {
	return strings.ToLower(strings.TrimPrefix(given.String(), "AGGREGATION_TEMPORALITY_"))
}

func numberPoints(given []*metrics.NumberDataPoint) []pointLine {
	points := make([]pointLine, len(given))
	for i, point := range given {
		points[i] = pointLine{Attributes: attributes(point.Attributes), StartNs: point.StartTimeUnixNano,
			TimeNs: point.TimeUnixNano, Flags: point.Flags, Exemplars: otlpExemplars(point.Exemplars)}
		switch value := point.Value.(type) {
		case *metrics.NumberDataPoint_AsInt:
			points[i].Value = map[string]any{"int": value.AsInt}
		case *metrics.NumberDataPoint_AsDouble:
			points[i].Value = map[string]any{"double": bits(value.AsDouble)}
		}
	}
	return points
}

func histogramPoints(given []*metrics.HistogramDataPoint) []pointLine {
	points := make([]pointLine, len(given))
	for i, point := range given {
		points[i] = pointLine{Attributes: attributes(point.Attributes), StartNs: point.StartTimeUnixNano,
			TimeNs: point.TimeUnixNano, Flags: point.Flags, Exemplars: otlpExemplars(point.Exemplars),
			Count: &point.Count, Sum: (*bits)(point.Sum), Min: (*bits)(point.Min), Max: (*bits)(point.Max),
			Bounds: allBits(point.ExplicitBounds), BucketCounts: point.BucketCounts}
	}
	return points
}

func exponentialPoints(given []*metrics.ExponentialHistogramDataPoint) []pointLine {
	points := make([]pointLine, len(given))
	for i, point := range given {
		threshold := bits(point.ZeroThreshold)
		points[i] = pointLine{Attributes: attributes(point.Attributes), StartNs: point.StartTimeUnixNano,
			TimeNs: point.TimeUnixNano, Flags: point.Flags, Exemplars: otlpExemplars(point.Exemplars),
			Count: &point.Count, Sum: (*bits)(point.Sum), Min: (*bits)(point.Min), Max: (*bits)(point.Max),
			Scale: &point.Scale, ZeroCount: &point.ZeroCount, ZeroThreshold: &threshold,
			Positive: otlpSide(point.Positive), Negative: otlpSide(point.Negative)}
	}
	return points
}

func otlpSide(given *metrics.ExponentialHistogramDataPoint_Buckets) *otlpBuckets {
	if given == nil {
		return nil
	}
	return &otlpBuckets{given.Offset, append([]uint64{}, given.BucketCounts...)}
}

func summaryPoints(given []*metrics.SummaryDataPoint) []pointLine {
	points := make([]pointLine, len(given))
	for i, point := range given {
		sum := bits(point.Sum)
		points[i] = pointLine{Attributes: attributes(point.Attributes), StartNs: point.StartTimeUnixNano,
			TimeNs: point.TimeUnixNano, Flags: point.Flags, Exemplars: []otlpExemplar{}, Count: &point.Count, Sum: &sum}
		for _, quantile := range point.QuantileValues {
			points[i].Quantiles = append(points[i].Quantiles, [2]bits{bits(quantile.Quantile), bits(quantile.Value)})
		}
	}
	return points
}

func otlpExemplars(given []*metrics.Exemplar) []otlpExemplar {
	values := make([]otlpExemplar, len(given))
	for i, exemplar := range given {
		values[i] = otlpExemplar{Attributes: attributes(exemplar.FilteredAttributes), TimeNs: exemplar.TimeUnixNano,
			TraceID: hex.EncodeToString(exemplar.TraceId), SpanID: hex.EncodeToString(exemplar.SpanId)}
		switch value := exemplar.Value.(type) {
		case *metrics.Exemplar_AsInt:
			values[i].Value = map[string]any{"int": value.AsInt}
		case *metrics.Exemplar_AsDouble:
			values[i].Value = map[string]any{"double": bits(value.AsDouble)}
		}
	}
	return values
}

func attributes(given []*common.KeyValue) []attribute {
	pairs := make([]attribute, len(given))
	for i, pair := range given {
		pairs[i] = attribute{pair.Key, anyValue(pair.Value)}
	}
	slices.SortStableFunc(pairs, func(a, b attribute) int { return strings.Compare(a.key, b.key) })
	return pairs
}

// anyValue recurses as deep as the decoder did, which has its own limit.
func anyValue(given *common.AnyValue) any {
	switch value := given.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return map[string]any{"string": text(value.StringValue)}
	case *common.AnyValue_BoolValue:
		return map[string]any{"bool": value.BoolValue}
	case *common.AnyValue_IntValue:
		return map[string]any{"int": value.IntValue}
	case *common.AnyValue_DoubleValue:
		return map[string]any{"double": bits(value.DoubleValue)}
	case *common.AnyValue_BytesValue:
		return map[string]any{"bytes": hex.EncodeToString(value.BytesValue)}
	case *common.AnyValue_ArrayValue:
		values := []any{}
		for _, element := range value.ArrayValue.GetValues() {
			values = append(values, anyValue(element))
		}
		return map[string]any{"array": values}
	case *common.AnyValue_KvlistValue:
		return map[string]any{"map": attributes(value.KvlistValue.GetValues())}
	}
	return nil
}
