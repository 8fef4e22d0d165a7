package org.staticfire.testing;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.net.ProxySelector;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import javax.net.ssl.SSLException;

/** Requests to the control endpoint of a cluster: HTTP or HTTPS, and JSON. */
final class ControlClient {
    static final Duration TIMEOUT = Duration.ofSeconds(30);
    private static final int WORDS_MAX = 300;

    // Never by a proxy: the endpoint is on this machine or on the one of the Docker engine.
    private static final HttpClient HTTP = builder().build();

    private final String url;
    private final String token;
    private final HttpClient http;

    ControlClient(String url, String token) {
        this(url, token, "");
    }

    /** {@code trusted}: a file with the CA of an https endpoint; empty: the CAs that this Java trusts. */
    ControlClient(String url, String token, String trusted) {
        this.url = url;
        this.token = token;
        boolean own = url.startsWith("https:") && !trusted.isEmpty();
        http = own ? builder().sslContext(TrustedCa.context(trusted)).build() : HTTP;
    }

    private static HttpClient.Builder builder() {
        return HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(Duration.ofSeconds(10))
            .proxy(ProxySelector.of(null));
    }

    String url() {
        return url;
    }

    JsonObject get(String path) {
        return ask("GET", path, null, TIMEOUT);
    }

    JsonObject post(String path) {
        return ask("POST", path, null, TIMEOUT);
    }

    JsonObject post(String path, JsonObject body) {
        return ask("POST", path, body, TIMEOUT);
    }

    JsonObject delete(String path) {
        return ask("DELETE", path, null, TIMEOUT);
    }

    JsonObject ask(String method, String path, JsonObject body, Duration timeout) {
        String called = method + " " + url + path;
        HttpResponse<String> response;
        try {
            response = http.send(request(method, path, body, timeout), HttpResponse.BodyHandlers.ofString());
        } catch (SSLException error) {
            throw new StaticfireException(called + " failed: " + error + "; name the file with the cluster's CA: the"
                + " setting " + TrustedCa.SETTING + ", or " + TrustedCa.VARIABLE + " in the environment", error);
        } catch (IOException error) {
            throw new StaticfireException(called + " failed: " + error + "; is the cluster still running?", error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new StaticfireException(called + " was interrupted", error);
        }
        JsonObject content = read(called, response);
        if (response.statusCode() >= 400) {
            throw refusal(called, response.statusCode(), content);
        }
        return content;
    }

    private HttpRequest request(String method, String path, JsonObject body, Duration timeout) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path)).timeout(timeout);
        if (!token.isEmpty()) {
            request.header("Authorization", "Bearer " + token);
        }
        HttpRequest.BodyPublisher content = body == null
            ? HttpRequest.BodyPublishers.noBody()
            : HttpRequest.BodyPublishers.ofString(body.toString());
        return request.method(method, content).build();
    }

    private static JsonObject read(String called, HttpResponse<String> response) {
        try {
            JsonElement content = JsonParser.parseString(response.body());
            if (content.isJsonObject()) {
                return content.getAsJsonObject();
            }
        } catch (JsonParseException error) {
            // The same exception as for JSON of another kind.
        }
        String text = response.body();
        String start = text.substring(0, Math.min(text.length(), WORDS_MAX));
        throw new StaticfireException(called + ": HTTP " + response.statusCode() + ", not from staticfire: " + start);
    }

    private static StaticfireException refusal(String called, int status, JsonObject content) {
        String words = content.has("error") ? content.get("error").getAsString() : content.toString();
        String code = content.has("code") ? content.get("code").getAsString() : "";
        return new StaticfireException(words + " (" + called + ": HTTP " + status + ")", status, code, null);
    }

    /** Encode a value for a path or a query string. */
    static String encoded(String value) {
        return URLEncoder.encode(value, StandardCharsets.UTF_8).replace("+", "%20");
    }
}
