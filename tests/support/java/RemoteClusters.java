// SPDX-License-Identifier: Apache-2.0

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/**
 * Asks Kafka's RemoteClusterUtils and prints what it says, one line for each part of an answer.
 *
 * <p>The first argument holds the addresses of the cluster; each further one is a question: heartbeats,
 * checkpoints, upstream, hops ALIAS, groups ALIAS PATTERN, group ALIAS NAME. A line begins with the
 * number of its question; fields are separated by tabs.
 */
public class RemoteClusters {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        System.setOut(new PrintStream(System.out, true, StandardCharsets.UTF_8));
        Map<String, Object> properties = Map.of("bootstrap.servers", arguments[0]);
        for (int number = 1; number < arguments.length; number++) {
            answer(number, arguments[number].split(" "), properties);
        }
        // The clients leave threads that end by and by; nobody needs to wait for them.
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void answer(int number, String[] question, Map<String, Object> properties)
            throws Exception {
        switch (question[0]) {
            case "heartbeats":
                RemoteClusterUtils.heartbeatTopics(properties).forEach(name -> print(number, name));
                break;
            case "checkpoints":
                RemoteClusterUtils.checkpointTopics(properties).forEach(name -> print(number, name));
                break;
            case "upstream":
                RemoteClusterUtils.upstreamClusters(properties).forEach(name -> print(number, name));
                break;
            case "hops":
                print(number, RemoteClusterUtils.replicationHops(properties, question[1]));
                break;
            case "groups":
                RemoteClusterUtils.translateOffsets(
                                properties, question[1], Pattern.compile(question[2]), PATIENCE)
                        .forEach((group, offsets) -> print(number, group, offsets));
                break;
            case "group":
                print(
                        number,
                        question[2],
                        RemoteClusterUtils.translateOffsets(
                                properties, question[1], question[2], PATIENCE));
                break;
            default:
                throw new IllegalArgumentException(question[0]);
        }
    }

    private static void print(int number, String group, Map<TopicPartition, OffsetAndMetadata> all) {
        all.forEach(
                (place, committed) ->
                        print(
                                number,
                                group,
                                place.topic(),
                                place.partition(),
                                committed.offset(),
                                committed.metadata()));
    }

    private static void print(int number, Object... fields) {
        StringBuilder line = new StringBuilder().append(number);
        for (Object field : fields) {
            line.append('\t').append(field);
        }
        System.out.println(line);
    }
}
