package bench;

import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The command line's {@code --key value} pairs. Of a repeated key, the last counts. */
final class Options {
  private final Map<String, String> values = new HashMap<>();

  private Options() {}

  static Options parse(List<String> arguments) {
    Options options = new Options();
    for (int i = 0; i < arguments.size(); i += 2) {
      String key = arguments.get(i);
      if (!key.startsWith("--") || i + 1 == arguments.size()) {
        throw new IllegalArgumentException("expected --key value at \"" + key + "\"");
      }
      options.values.put(key.substring(2), arguments.get(i + 1));
    }
    return options;
  }

  String text(String key, String standard) {
    return values.getOrDefault(key, standard);
  }

  /** A number of at least one. */
  int count(String key, int standard) {
    String given = values.get(key);
    if (given == null) {
      return standard;
    }
    try {
      int value = Integer.parseInt(given);
      if (value >= 1) {
        return value;
      }
    } catch (NumberFormatException e) {
      // falls through to the message that names the option
    }
    throw new IllegalArgumentException("--" + key + " takes a number of at least 1, not " + given);
  }
}
