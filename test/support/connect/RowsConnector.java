package dev.statefold.test;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** Appends what reaches a sink, after converters and transforms, to a file: a line of JSON a record, in the order of its topic. */
public final class RowsConnector extends SinkConnector {
    private static final ConfigDef CONFIG = new ConfigDef().define("file", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The file.");
    private Map<String, String> properties;

    @Override
    public void start(Map<String, String> given) {
        properties = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return RowsTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return List.of(properties);
    }

    @Override
    public void stop() {
    }

    @Override
    public ConfigDef config() {
        return CONFIG;
    }

    @Override
    public String version() {
        return "1";
    }

    public static final class RowsTask extends SinkTask {
        private final JsonConverter json = new JsonConverter();
        private Path file;

        @Override
        public void start(Map<String, String> properties) {
            file = Path.of(properties.get("file"));
            if (!Files.isDirectory(file.getParent())) throw new ConnectException("there is no directory " + file.getParent());
            json.configure(Map.of("schemas.enable", "false"), false);
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            if (records.isEmpty()) return;
            try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(file, StandardCharsets.UTF_8, StandardOpenOption.CREATE, StandardOpenOption.APPEND))) {
                for (SinkRecord record : records) {
                    byte[] row = json.fromConnectData(record.topic(), record.valueSchema(), record.value());
                    out.println(row == null ? "null" : new String(row, StandardCharsets.UTF_8));
                }
            } catch (IOException e) {
                throw new ConnectException(e);
            }
        }

        @Override
        public void stop() {
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
