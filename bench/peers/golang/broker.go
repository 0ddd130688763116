package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

type family struct {
	noun, help string
	counter    bool
}

var families = [...]family{
	{"messages_ready", "Messages ready for delivery", false},
	{"messages_unacked", "Messages delivered and not yet acknowledged", false},
	{"messages", "Messages, ready and unacknowledged", false},
	{"messages_ram", "Messages held in memory", false},
	{"messages_paged", "Messages written out to free memory", false},
	{"message_bytes", "Size of the message bodies", false},
	{"memory_bytes", "Memory of the queue's process", false},
	{"age_seconds", "Age of the oldest message", false},
	{"consumers", "Consumers of the queue", false},
	{"bindings", "Bindings to the queue", false},
	{"reads_total", "Messages read from disk", true},
	{"writes_total", "Messages written to disk", true},
	{"publish_total", "Messages published", true},
	{"confirm_total", "Messages confirmed to their publishers", true},
	{"deliver_total", "Messages delivered to consumers", true},
	{"noack_total", "Messages delivered without acknowledgement", true},
	{"redeliver_total", "Messages delivered again", true},
	{"ack_total", "Messages acknowledged", true},
	{"get_total", "Messages fetched", true},
	{"empty_total", "Fetches from an empty queue", true},
	{"dropped_total", "Messages dropped", true},
	{"returned_total", "Messages returned as unroutable", true},
	{"gc_total", "Garbage collections of the queue's process", true},
}

const fractionalFamily = 7

func rawValue(queue, family int) uint64 {
	bits := 1 + 7*family%30
	return (2654435761*uint64(queue) + 40503*uint64(family)) & (1<<bits - 1)
}

func asFloat(family int, raw uint64) float64 {
	if family == fractionalFamily {
		return float64(raw) / 1024
	}
	return float64(raw)
}

func queueLabels(queue int) (vhost, name string) {
	return fmt.Sprintf("/vhost-%d", queue%10), fmt.Sprintf("queue-%06d", queue)
}

// fillRegistry registers one vector per family with one series per queue, as instrumented code would.
func fillRegistry(registry *prometheus.Registry, queues int) error {
	labels := []string{"vhost", "queue"}
	var counters [len(families)]*prometheus.CounterVec
	var gauges [len(families)]*prometheus.GaugeVec
	for f, family := range families {
		name := "rabbitmq_queue_" + family.noun
		var collector prometheus.Collector
		if family.counter {
			counters[f] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: family.help}, labels)
			collector = counters[f]
		} else {
			gauges[f] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: family.help}, labels)
			collector = gauges[f]
		}
		if err := registry.Register(collector); err != nil {
			return err
		}
	}
	for q := range queues {
		vhost, queue := queueLabels(q)
		for f := range families {
			value := asFloat(f, rawValue(q, f))
			if counters[f] != nil {
				counters[f].WithLabelValues(vhost, queue).Add(value)
			} else {
				gauges[f].WithLabelValues(vhost, queue).Set(value)
			}
		}
	}
	return nil
}

type queueRow struct {
	vhost, queue string
	raw          [len(families)]uint64
}

// table is the program's own data with a collector over it: the registry keeps nothing per series.
type table struct {
	rows         []queueRow
	descriptions [len(families)]*prometheus.Desc
}

func newTable(queues int) *table {
	t := &table{rows: make([]queueRow, queues)}
	for f, family := range families {
		t.descriptions[f] = prometheus.NewDesc("rabbitmq_queue_"+family.noun, family.help, []string{"vhost", "queue"}, nil)
	}
	for q := range t.rows {
		row := &t.rows[q]
		row.vhost, row.queue = queueLabels(q)
		for f := range families {
			row.raw[f] = rawValue(q, f)
		}
	}
	return t
}

func (t *table) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range t.descriptions {
		descriptions <- description
	}
}

func (t *table) Collect(metrics chan<- prometheus.Metric) {
	for f, family := range families {
		kind := prometheus.GaugeValue
		if family.counter {
			kind = prometheus.CounterValue
		}
		for q := range t.rows {
			row := &t.rows[q]
			metrics <- prometheus.MustNewConstMetric(t.descriptions[f], kind, asFloat(f, row.raw[f]), row.vhost, row.queue)
		}
	}
}

// response stands in for the connection: it counts the text, and keeps it only where --out asks for it.
type response struct {
	header  http.Header
	copy    io.Writer
	status  int
	bytes   uint64
	started time.Time
	first   time.Duration
}

func (r *response) Header() http.Header    { return r.header }
func (r *response) WriteHeader(status int) { r.status = status }

func (r *response) Write(text []byte) (int, error) {
	if r.bytes == 0 {
		r.first = time.Since(r.started)
	}
	r.bytes += uint64(len(text))
	if r.copy != nil {
		return r.copy.Write(text)
	}
	return len(text), nil
}

func scrape(handler http.Handler, request *http.Request, copy io.Writer) (*response, error) {
	answer := &response{header: http.Header{}, copy: copy, status: http.StatusOK, started: time.Now()}
	handler.ServeHTTP(answer, request)
	if answer.status != http.StatusOK || answer.bytes == 0 {
		return nil, fmt.Errorf("the scrape answered %d with %d bytes", answer.status, answer.bytes)
	}
	return answer, nil
}

func firstScrape(handler http.Handler, request *http.Request, out string) error {
	if out == "" {
		_, err := scrape(handler, request, nil)
		return err
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	_, err = scrape(handler, request, file)
	return errors.Join(err, file.Close())
}

func runBroker(name string, arguments []string) error {
	flags := flag.NewFlagSet("broker", flag.ContinueOnError)
	queues := flags.Int("queues", 100_000, "queues, of 23 series each")
	scrapes := flags.Int("scrapes", 3, "measured scrapes")
	out := flags.String("out", "", "write the text of one scrape there")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *queues < 1 || *scrapes < 1 {
		return fmt.Errorf("--queues and --scrapes must be at least 1")
	}

	residentEmpty, err := residentBytes()
	if err != nil {
		return err
	}
	heapEmpty := retained()
	registry := prometheus.NewRegistry()
	var rows *table
	if name == "table" {
		rows = newTable(*queues)
		err = registry.Register(rows)
	} else {
		err = fillRegistry(registry, *queues)
	}
	if err != nil {
		return err
	}
	heapFull := retained()
	residentFull, err := residentBytes()
	if err != nil {
		return err
	}

	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true})
	request, err := http.NewRequest(http.MethodGet, "/metrics", nil)
	if err != nil {
		return err
	}
	if err := forgetPeak(); err != nil {
		return err
	}
	// The first scrape fills the pools, and the file; it belongs to the peak and not to the medians.
	if err := firstScrape(handler, request, *out); err != nil {
		return err
	}
	var processor, wall, first []time.Duration
	var bytes, objects []uint64
	var text uint64
	for range *scrapes {
		bytesBefore, objectsBefore := allocated()
		processorBefore, wallBefore := processorTime(), time.Now()
		answer, err := scrape(handler, request, nil)
		wall = append(wall, time.Since(wallBefore))
		processor = append(processor, processorTime()-processorBefore)
		if err != nil {
			return err
		}
		bytesAfter, objectsAfter := allocated()
		bytes, objects = append(bytes, bytesAfter-bytesBefore), append(objects, objectsAfter-objectsBefore)
		text, first = answer.bytes, append(first, answer.first)
	}
	peak, err := peakBytes()
	if err != nil {
		return err
	}
	runtime.KeepAlive(rows)

	series := *queues * len(families)
	report("client_golang", "broker", name,
		count("queues", *queues), count("series", series), count("scrapes", *scrapes), count("text_bytes", text),
		number("cpu_seconds", median(processor).Seconds()), number("wall_seconds", median(wall).Seconds()),
		number("ns_per_series", float64(median(processor).Nanoseconds())/float64(series)),
		number("first_byte_seconds", median(first).Seconds()),
		count("allocated_bytes", median(bytes)), count("allocations", median(objects)),
		count("peak_over_registry_bytes", peak-min(peak, residentFull)),
		number("kept_heap_bytes_per_series", float64(heapFull-heapEmpty)/float64(series)),
		number("kept_resident_bytes_per_series", float64(residentFull-min(residentFull, residentEmpty))/float64(series)))
	return nil
}
