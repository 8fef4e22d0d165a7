import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * RocketMQ's own mqadmin, one command after another in one Java machine: a command takes a second less than by itself.
 *
 * Each line of standard input is a command with its arguments. What it says, on standard output or as an error, is
 * written to standard output behind its length, four bytes.
 */
public class Admin {
    public static void main(String[] none) throws Exception {
        DataOutputStream told = new DataOutputStream(System.out);
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream catching = new PrintStream(said, true, StandardCharsets.UTF_8);
            System.setOut(catching);
            System.setErr(catching);
            Commands.run(line.split(" "));
            catching.flush();
            told.writeInt(said.size());
            said.writeTo(told);
            told.flush();
        }
        System.exit(0);
    }
}

class Commands extends MQAdminStartup {
    static void run(String[] arguments) {
        SUB_COMMANDS.clear();
        main0(arguments, null);
    }
}
