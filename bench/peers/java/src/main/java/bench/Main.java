package bench;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * Runs the workloads of bench/peers/WORKLOADS.md with OpenTelemetry's Java SDK and prints one line per
 * measured case: {@code PEER otel_java workload=… case=… key=value …}.
 *
 * <p>A run of several cases starts a virtual machine for each: what the compiler learnt in one case and
 * the heap it grew must not show in the next.
 */
final class Main {
  /** One workload: runs the named case. */
  private interface Workload {
    void run(String name, Options options) throws Exception;
  }

  private static final List<String> MODES =
      List.of("reusable-cumulative", "reusable-delta", "immutable-cumulative", "immutable-delta");

  private static final Map<String, List<String>> CASES =
      Map.of("sdk", MODES, "sdk-peak", MODES, "record", Recording.CASES);

  private static final String USAGE =
      """
      usage: peer-java [--heap 8g] <workload> [--case NAME|all] [options]
        sdk       [--instruments 10] [--sets 1000] [--ops 10]    cases: %s
        sdk-peak  [--instruments 50] [--sets 100000]             cases: the same
        record    [--operations 1000000] [--rounds 11]           cases: %s"""
          .formatted(String.join(", ", MODES), String.join(", ", Recording.CASES));

  private Main() {}

  public static void main(String[] arguments) throws Exception {
    try {
      start(arguments);
    } catch (IllegalArgumentException e) {
      System.err.println("peer-java: " + e.getMessage() + "\n" + USAGE);
      System.exit(2);
    }
  }

  private static void start(String[] arguments) throws Exception {
    if (arguments.length == 0 || !CASES.containsKey(arguments[0])) {
      throw new IllegalArgumentException("name a workload");
    }
    String workload = arguments[0];
    Options options = Options.parse(Arrays.asList(arguments).subList(1, arguments.length));
    String chosen = options.text("case", "all");
    if (chosen.equals("all")) {
      for (String name : CASES.get(workload)) {
        startAgain(arguments, name);
      }
      return;
    }
    if (!CASES.get(workload).contains(chosen)) {
      throw new IllegalArgumentException(workload + " has no case " + chosen);
    }
    Workload run =
        switch (workload) {
          case "sdk" -> Collecting::run;
          case "sdk-peak" -> Collecting::runPeak;
          default -> Recording::run;
        };
    run.run(chosen, options);
  }

  private static void startAgain(String[] arguments, String name) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(System.getProperty("java.home") + "/bin/java");
    command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), Main.class.getName()));
    command.addAll(Arrays.asList(arguments));
    command.addAll(List.of("--case", name)); // the last one given counts
    int exit = new ProcessBuilder(command).inheritIO().start().waitFor();
    if (exit != 0) {
      throw new IllegalStateException("case " + name + " ended with " + exit);
    }
  }

  /** Prints one result; the fields are {@code key=value} already. */
  static void report(String workload, String name, String... fields) {
    System.out.println(
        "PEER otel_java workload=" + workload + " case=" + name + " " + String.join(" ", fields));
  }
}
