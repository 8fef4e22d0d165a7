/** What the Java programs print: a line of JSON for each step. */
final class Said {
    private Said() {}

    static String words(Throwable error) {
        StringBuilder words = new StringBuilder();
        for (Throwable each = error; each != null; each = each.getCause()) {
            words.append(words.length() == 0 ? "" : " <- ").append(each.getClass().getSimpleName()).append(": ")
                .append(each.getMessage());
        }
        return words.toString();
    }

    static void say(String step, boolean ok, String detail) {
        String text = detail.replace("\\", "\\\\").replace("\"", "'").replaceAll("\\s+", " ");
        System.out.printf("{\"step\": \"%s\", \"ok\": %s, \"detail\": \"%s\"}%n", step, ok, text);
    }
}
