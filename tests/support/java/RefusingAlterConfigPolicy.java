// SPDX-License-Identifier: Apache-2.0
// Refuses every change of a config that a service does not let its users change.

import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.AlterConfigPolicy;

public class RefusingAlterConfigPolicy implements AlterConfigPolicy {
    private Set<String> configs = Set.of();

    @Override
    public void configure(Map<String, ?> properties) {
        configs = Set.of(String.valueOf(properties.get("refusing.allowed.configs")).split(","));
    }

    @Override
    public void validate(RequestMetadata request) {
        for (String name : request.configs().keySet()) {
            if (!configs.contains(name)) {
                throw new PolicyViolationException("The service does not let you change " + name);
            }
        }
    }

    @Override
    public void close() {}
}
