package bench;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.metrics.DoubleHistogram;
import io.opentelemetry.api.metrics.LongCounter;
import io.opentelemetry.api.metrics.Meter;
import io.opentelemetry.sdk.common.CompletableResultCode;
import io.opentelemetry.sdk.metrics.Aggregation;
import io.opentelemetry.sdk.metrics.InstrumentSelector;
import io.opentelemetry.sdk.metrics.InstrumentType;
import io.opentelemetry.sdk.metrics.SdkMeterProvider;
import io.opentelemetry.sdk.metrics.View;
import io.opentelemetry.sdk.metrics.data.AggregationTemporality;
import io.opentelemetry.sdk.metrics.data.MetricData;
import io.opentelemetry.sdk.metrics.export.CollectionRegistration;
import io.opentelemetry.sdk.metrics.export.MetricReader;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CyclicBarrier;

/** One operation on a synchronous instrument, in a loop. */
final class Recording {
  static final List<String> CASES =
      List.of(
          "bound",
          "unbound3",
          "reordered3",
          "histogram",
          "histogram_native",
          "histogram_unbound3",
          "contended2",
          "contended2_unbound3");

  private static final int WARM_UP_ROUNDS = 10;
  private static final List<Double> BOUNDS =
      List.of(5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0);
  private static final AttributeKey<String> METHOD = AttributeKey.stringKey("http.request.method");
  private static final AttributeKey<String> ROUTE = AttributeKey.stringKey("http.route");
  private static final AttributeKey<String> STATUS =
      AttributeKey.stringKey("http.response.status_code");

  private interface Loop {
    void run(int operations);
  }

  private static final class Reader implements MetricReader {
    private CollectionRegistration registration = CollectionRegistration.noop();

    @Override
    public void register(CollectionRegistration registration) {
      this.registration = registration;
    }

    @Override
    public AggregationTemporality getAggregationTemporality(InstrumentType type) {
      return AggregationTemporality.CUMULATIVE;
    }

    @Override
    public CompletableResultCode forceFlush() {
      return CompletableResultCode.ofSuccess();
    }

    @Override
    public CompletableResultCode shutdown() {
      return CompletableResultCode.ofSuccess();
    }
  }

  private final Reader reader = new Reader();
  private final SdkMeterProvider provider;
  private final LongCounter counter;
  private final DoubleHistogram histogram;
  private final DoubleHistogram nativeHistogram;
  private final Attributes built =
      Attributes.of(METHOD, "GET", ROUTE, "/api/queues/:vhost/:name", STATUS, "200");

  private Recording() {
    provider =
        SdkMeterProvider.builder()
            .registerMetricReader(reader)
            .registerView(
                InstrumentSelector.builder().setName("native").build(),
                View.builder()
                    .setAggregation(Aggregation.base2ExponentialBucketHistogram(160, 20))
                    .build())
            .build();
    Meter meter = provider.get("bench");
    counter = meter.counterBuilder("requests").build();
    histogram =
        meter.histogramBuilder("latency").setExplicitBucketBoundariesAdvice(BOUNDS).build();
    nativeHistogram = meter.histogramBuilder("native").build();
  }

  /** The loops stand here in full: a call through a shared loop would be timed with the operation. */
  private Loop loop(String name) {
    return switch (name) {
      case "bound", "contended2" ->
          operations -> {
            for (int n = 0; n < operations; n++) {
              counter.add(1, built);
            }
          };
      case "unbound3", "contended2_unbound3" ->
          operations -> {
            for (int n = 0; n < operations; n++) {
              counter.add(
                  1, Attributes.of(METHOD, "GET", ROUTE, "/api/queues/:vhost/:name", STATUS, "200"));
            }
          };
      case "reordered3" ->
          operations -> {
            for (int n = 0; n < operations; n++) {
              counter.add(
                  1, Attributes.of(STATUS, "200", ROUTE, "/api/queues/:vhost/:name", METHOD, "GET"));
            }
          };
      case "histogram" ->
          operations -> {
            for (int n = 0; n < operations; n++) {
              histogram.record(n * 7919L % 1009, built);
            }
          };
      case "histogram_native" ->
          operations -> {
            for (int n = 0; n < operations; n++) {
              nativeHistogram.record(n * 7919L % 1009, built);
            }
          };
      case "histogram_unbound3" ->
          operations -> {
            for (int n = 0; n < operations; n++) {
              histogram.record(
                  n * 7919L % 1009,
                  Attributes.of(METHOD, "GET", ROUTE, "/api/queues/:vhost/:name", STATUS, "200"));
            }
          };
      default -> throw new IllegalArgumentException("record has no case " + name);
    };
  }

  static void run(String name, Options options) throws Exception {
    int operations = options.count("operations", 1_000_000);
    int rounds = options.count("rounds", 11);
    int threads = name.startsWith("contended2") ? 2 : 1;
    Recording recording = new Recording();
    Loop loop = recording.loop(name);
    double[] nanos = new double[rounds];
    double[] bytes = new double[rounds];
    for (int round = -WARM_UP_ROUNDS; round < rounds; round++) {
      long[] taken = threads == 1 ? alone(loop, operations) : together(loop, operations, threads);
      if (round >= 0) {
        nanos[round] = (double) taken[0] / operations;
        bytes[round] = (double) taken[1] / operations;
      }
    }
    recording.check((long) (WARM_UP_ROUNDS + rounds) * operations * threads);
    Arrays.sort(nanos);
    Arrays.sort(bytes);
    Main.report(
        "record",
        name,
        "operations=" + operations,
        "threads=" + threads,
        Machine.number("ns_per_op", nanos[rounds / 2]),
        String.format(java.util.Locale.ROOT, "bytes_per_op=%.1f", bytes[rounds / 2]));
    recording.provider.close();
  }

  /** Nanoseconds and bytes of one round. */
  private static long[] alone(Loop loop, int operations) {
    long bytes = Machine.allocatedBytes();
    long wall = System.nanoTime();
    loop.run(operations);
    wall = System.nanoTime() - wall;
    return new long[] {wall, Machine.allocatedBytes() - bytes};
  }

  /** The same by several threads that start at one signal: from the signal to the last one's end. */
  private static long[] together(Loop loop, int operations, int threads) throws Exception {
    long[] bytes = new long[threads];
    CyclicBarrier barrier = new CyclicBarrier(threads + 1);
    Thread[] workers = new Thread[threads];
    for (int t = 0; t < threads; t++) {
      int self = t;
      workers[t] =
          new Thread(
              () -> {
                try {
                  barrier.await();
                } catch (Exception e) {
                  throw new IllegalStateException(e);
                }
                long before = Machine.allocatedBytes();
                loop.run(operations);
                bytes[self] = Machine.allocatedBytes() - before;
              });
      workers[t].start();
    }
    barrier.await();
    long wall = System.nanoTime();
    for (Thread worker : workers) {
      worker.join();
    }
    wall = System.nanoTime() - wall;
    return new long[] {wall, Arrays.stream(bytes).sum() / threads};
  }

  /** Refuses a run whose operations did not all arrive, or did not arrive in one series. */
  private void check(long expected) {
    long recorded = 0;
    for (MetricData metric : reader.registration.collectAllMetrics()) {
      int points = metric.getData().getPoints().size();
      if (points == 0) {
        continue;
      }
      if (points != 1) {
        throw new IllegalStateException(metric.getName() + " holds " + points + " series");
      }
      recorded +=
          switch (metric.getType()) {
            case LONG_SUM -> metric.getLongSumData().getPoints().iterator().next().getValue();
            case HISTOGRAM -> metric.getHistogramData().getPoints().iterator().next().getCount();
            case EXPONENTIAL_HISTOGRAM ->
                metric.getExponentialHistogramData().getPoints().iterator().next().getCount();
            default -> throw new IllegalStateException("unexpected metric " + metric.getName());
          };
    }
    if (recorded != expected) {
      throw new IllegalStateException(expected + " operations left " + recorded);
    }
  }
}
