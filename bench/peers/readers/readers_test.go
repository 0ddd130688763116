package main

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func delimited(t *testing.T, families ...*dto.MetricFamily) string {
	t.Helper()
	var body bytes.Buffer
	for _, family := range families {
		if _, err := protodelim.MarshalTo(&body, family); err != nil {
			t.Fatal(err)
		}
	}
	return body.String()
}

func nativeFamily() *dto.MetricFamily {
	return &dto.MetricFamily{Name: proto.String("h"), Help: proto.String("latency"), Unit: proto.String("seconds"),
		Type: dto.MetricType_HISTOGRAM.Enum(), Metric: []*dto.Metric{{
			Label: []*dto.LabelPair{{Name: proto.String("x"), Value: proto.String("1")}},
			Histogram: &dto.Histogram{
				SampleCount: proto.Uint64(6), SampleSum: proto.Float64(2.5), Schema: proto.Int32(3),
				ZeroThreshold: proto.Float64(0.5), ZeroCount: proto.Uint64(1),
				PositiveSpan:     []*dto.BucketSpan{{Offset: proto.Int32(-2), Length: proto.Uint32(2)}, {Offset: proto.Int32(3), Length: proto.Uint32(1)}},
				PositiveDelta:    []int64{2, -1, 1},
				CreatedTimestamp: &timestamppb.Timestamp{Seconds: 7, Nanos: 1_500_000},
				Exemplars: []*dto.Exemplar{{Value: proto.Float64(1), Timestamp: &timestamppb.Timestamp{Seconds: 9},
					Label: []*dto.LabelPair{{Name: proto.String("trace_id"), Value: proto.String("ab")}}}},
			}}}}
}

func otlpRequest(t *testing.T) string {
	t.Helper()
	attribute := func(key, value string) *common.KeyValue {
		return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
	}
	point := &metrics.NumberDataPoint{StartTimeUnixNano: 1, TimeUnixNano: 2,
		Attributes: []*common.KeyValue{attribute("b", "2"), attribute("a", "1")},
		Value:      &metrics.NumberDataPoint_AsInt{AsInt: -5}}
	body, err := proto.Marshal(&collector.ExportMetricsServiceRequest{ResourceMetrics: []*metrics.ResourceMetrics{{
		ScopeMetrics: []*metrics.ScopeMetrics{{Metrics: []*metrics.Metric{
			{Name: "c", Unit: "1", Data: &metrics.Metric_Sum{Sum: &metrics.Sum{IsMonotonic: true,
				AggregationTemporality: metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA,
				DataPoints:             []*metrics.NumberDataPoint{point, point}}}},
			{Name: "e", Data: &metrics.Metric_ExponentialHistogram{ExponentialHistogram: &metrics.ExponentialHistogram{
				DataPoints: []*metrics.ExponentialHistogramDataPoint{{Count: 1, Sum: proto.Float64(1), Scale: -1,
					Positive: &metrics.ExponentialHistogramDataPoint_Buckets{Offset: -3, BucketCounts: []uint64{1}}}}}}},
		}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// Each case names a piece of every line that the body must be answered with, in order.
func TestAnswers(t *testing.T) {
	classic := nativeFamily()
	classic.Metric[0].Histogram = &dto.Histogram{SampleCount: proto.Uint64(2), SampleSum: proto.Float64(1),
		Bucket: []*dto.Bucket{{CumulativeCount: proto.Uint64(2), UpperBound: proto.Float64(1)}}}
	broken := nativeFamily()
	broken.Metric[0].Histogram.PositiveDelta = []int64{2, -1}
	unknown := nativeFamily()
	unknown.Metric[0].ProtoReflect().SetUnknown([]byte{0x48, 0x01})

	cases := []struct {
		name, format, body string
		lines              []string
	}{
		{"escapes", "text", "# HELP a \\\\ \\n <\n# TYPE a gauge\na{x=\"\\\"\\n\"} 1 7\n", []string{
			`"expfmt","event":"family","name":"a","type":"gauge","help":"\\ \n <","unit":null}`,
			`"name":"a","labels":[["x","\"\n"]],"value":"3ff0000000000000","timestamp_ms":7,`,
			`"event":"end","families":1,"samples":1,"duplicate_series":0,"split_families":0}`,
			`"textparse","event":"family","name":"a","type":"gauge","help":"\\ \n <","unit":null}`,
			`"name":"a","labels":[["x","\"\n"]],"value":"3ff0000000000000","timestamp_ms":7,`,
			`"event":"end","families":1,"samples":1,"duplicate_series":0,"split_families":0}`,
		}},
		{"a series twice, a family split", "openmetrics", "# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\na 2\n# EOF\n", []string{
			`"name":"a","type":"gauge"`, `"sample"`, `"name":"b","type":"gauge"`, `"sample"`, `"sample"`,
			`"duplicate_series":1,"split_families":1}`,
		}},
		{"a label twice", "text", "a{x=\"1\",x=\"2\"} 1\n", []string{
			`"expfmt","event":"error"`, `"textparse","event":"error"`,
		}},
		{"TYPE twice", "text", "# TYPE a gauge\n# TYPE a gauge\na 1\n", []string{
			`"expfmt","event":"error"`, `"textparse","event":"family"`, `"textparse","event":"family"`, `"sample"`, `"end"`,
		}},
		{"created and exemplar", "openmetrics",
			"# TYPE a counter\na_total 1 # {t=\"x\"} 0.5 1.5\na_created 2.5\n# EOF\n", []string{
				`"family"`,
				`"name":"a_total","labels":[],"value":"3ff0000000000000","timestamp_ms":null,"created_ms":2500,` +
					`"exemplars":[{"labels":[["t","x"]],"value":"3fe0000000000000","timestamp_ms":1500}]}`,
				`"end"`,
			}},
		{"no end", "openmetrics", "a 1\n", []string{`"sample"`, `"error"`}},
		{"native histogram", "protobuf", delimited(t, nativeFamily()), []string{
			`"expfmt","event":"family","name":"h","type":"histogram","help":"latency","unit":"seconds"}`,
			`"event":"histogram","name":"h","labels":[["x","1"]],"timestamp_ms":null,"created_ms":7001,"created_ns":7001500000,` +
				`"float":false,"gauge":false,"schema":3,"zero_threshold":"3fe0000000000000","zero_count":1,"count":6,` +
				`"sum":"4004000000000000","positive":{"spans":[[-2,2],[3,1]],"buckets":[[-2,2],[-1,1],[3,2]]},` +
				`"negative":{"spans":[],"buckets":[]},"custom_values":[],` +
				`"exemplars":[{"labels":[["trace_id","ab"]],"value":"3ff0000000000000","timestamp_ms":9000,"timestamp_ns":9000000000}]}`,
			`"end"`,
			`"textparse","event":"family","name":"h","type":"histogram","help":"latency","unit":"seconds"}`,
			`"created_ms":7001,"float":false,"gauge":false,"schema":3,"zero_threshold":"3fe0000000000000","zero_count":1,"count":6,` +
				`"sum":"4004000000000000","positive":{"spans":[[-2,2],[3,1]],"buckets":[[-2,2],[-1,1],[3,2]]},`,
			`"end"`,
		}},
		{"classic histogram", "protobuf", delimited(t, classic), []string{
			`"family"`, `"h_bucket","labels":[["le","1.0"],["x","1"]]`, `"h_sum"`, `"h_count"`, `"end"`,
			`"family"`, `"h_count"`, `"h_sum"`, `"h_bucket"`, `"h_bucket","labels":[["le","+Inf"],["x","1"]]`, `"end"`,
		}},
		{"too few buckets", "protobuf", delimited(t, broken), []string{
			`"family"`, `"expfmt","event":"error"`, `"family"`, `"textparse","event":"error"`,
		}},
		{"an unknown field", "protobuf", delimited(t, unknown), []string{
			`"expfmt","event":"error"`, `"family"`, `"histogram"`, `"end"`,
		}},
		{"cut off", "protobuf", delimited(t, nativeFamily())[:20], []string{
			`"expfmt","event":"error"`, `"textparse","event":"error"`,
		}},
		{"points", "otlp", otlpRequest(t), []string{
			`"resource","attributes":[]`, `"scope","name":""`,
			`"metric","name":"c","description":"","unit":"1","type":"sum","temporality":"delta","monotonic":true,`,
			`"point","attributes":[["a",{"string":"1"}],["b",{"string":"2"}]],"start_ns":1,"time_ns":2,"flags":0,"value":{"int":-5}`,
			`"point"`,
			`"metric","name":"e","description":"","unit":"","type":"exponential_histogram","temporality":"unspecified"`,
			`"count":1,"sum":"3ff0000000000000","scale":-1,"zero_count":0,"zero_threshold":"0000000000000000","positive":{"offset":-3,"counts":[1]}`,
			`"end","families":2,"samples":3,"duplicate_series":1,"split_families":0}`,
		}},
		{"an unknown field", "otlp", "\x12\x00", []string{`"error"`}},
		{"not UTF-8", "otlp", "\x0a\x03\x1a\x01\xff", []string{`"error"`}},
	}
	for _, c := range cases {
		t.Run(c.format+"/"+c.name, func(t *testing.T) {
			format, body, err := nextBody(bufio.NewReader(strings.NewReader(fmt.Sprintf("%s %d\n%s", c.format, len(c.body), c.body))))
			if err != nil {
				t.Fatal(err)
			}
			var output bytes.Buffer
			if err := answer(bufio.NewWriter(&output), format, body); err != nil {
				t.Fatal(err)
			}
			got := strings.Split(strings.TrimSpace(output.String()), "\n")
			want := append(c.lines, `{"event":"done"}`)
			if len(got) != len(want) {
				t.Fatalf("%d lines instead of %d:\n%s", len(got), len(want), output.String())
			}
			for i, piece := range want {
				if !strings.Contains(got[i], piece) {
					t.Errorf("line %d lacks\n%s\nin\n%s", i+1, piece, got[i])
				}
			}
		})
	}
}

func TestBrokenFrames(t *testing.T) {
	for _, frame := range []string{"text", "text x\n", "text -1\n", "text 5\nabc", "html 1\na", "text 9999999999999\n"} {
		if _, _, err := nextBody(bufio.NewReader(strings.NewReader(frame))); err == nil {
			t.Errorf("%q was read", frame)
		}
	}
}
