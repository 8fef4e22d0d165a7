// Reads questions, one a line with tabs between its parts, and writes what RocketMQ's own small classes answer.
//   expand KIND hex       -> the CRC-32 of the body that its compressor reads from it
//   pack KIND level hex   -> the body as its compressor writes it, in hex
//   id ID                 -> ip TAB process id TAB milliseconds since 1970 (of the last month that fits)
//   wrap NAMESPACE NAME, unwrap NAMESPACE NAME, retry NAMESPACE GROUP -> a name
//   latency MS            -> for how many milliseconds a broker that took so long isn't available

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.util.zip.CRC32;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.latency.MQFaultStrategy;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.compression.CompressorFactory;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.remoting.protocol.NamespaceUtil;

public class Facts {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            try {
                out.println(answer(parts));
            } catch (Exception exception) {
                out.println("! " + exception);
            }
        }
    }

    static String answer(String[] parts) throws Exception {
        switch (parts[0]) {
            case "expand":
                byte[] body = CompressorFactory.getCompressor(CompressionType.of(parts[1])).decompress(bytes(parts[2]));
                CRC32 crc = new CRC32();
                crc.update(body);
                return String.valueOf(crc.getValue());
            case "pack":
                return hex(CompressorFactory.getCompressor(CompressionType.of(parts[1]))
                    .compress(bytes(parts[3]), Integer.parseInt(parts[2])));
            case "id":
                return MessageClientIDSetter.getIPStrFromID(parts[1]) + "\t" + MessageClientIDSetter.getPidFromID(parts[1])
                    + "\t" + MessageClientIDSetter.getNearlyTimeFromID(parts[1]).getTime();
            case "wrap":
                return NamespaceUtil.wrapNamespace(parts[1], parts[2]);
            case "unwrap":
                return NamespaceUtil.withoutNamespace(parts[2], parts[1]);
            case "retry":
                return NamespaceUtil.wrapNamespaceAndRetry(parts[1], parts[2]);
            case "latency":
                Method compute = MQFaultStrategy.class.getDeclaredMethod("computeNotAvailableDuration", long.class);
                compute.setAccessible(true);
                return String.valueOf(compute.invoke(new MQFaultStrategy(new ClientConfig(), null, null), Long.parseLong(parts[1])));
            default:
                throw new IllegalArgumentException(parts[0]);
        }
    }

    static byte[] bytes(String hex) {
        byte[] data = new byte[hex.length() / 2];
        for (int at = 0; at < data.length; at++) {
            data[at] = (byte) Integer.parseInt(hex.substring(2 * at, 2 * at + 2), 16);
        }
        return data;
    }

    static String hex(byte[] data) {
        StringBuilder text = new StringBuilder();
        for (byte one : data) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }
}
