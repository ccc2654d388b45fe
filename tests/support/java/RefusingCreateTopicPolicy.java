// SPDX-License-Identifier: Apache-2.0
// Refuses what managed services refuse: topic configs and replication factors that are not theirs.

import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy;

public class RefusingCreateTopicPolicy implements CreateTopicPolicy {
    private Set<String> configs = Set.of();
    private String factor = "";

    @Override
    public void configure(Map<String, ?> properties) {
        configs = Set.of(String.valueOf(properties.get("refusing.allowed.configs")).split(","));
        factor = String.valueOf(properties.get("refusing.allowed.factor"));
    }

    @Override
    public void validate(RequestMetadata request) {
        for (String name : request.configs().keySet()) {
            if (!configs.contains(name)) {
                throw new PolicyViolationException("The service does not allow " + name);
            }
        }
        if (request.replicationFactor() != null
                && !factor.equals(String.valueOf(request.replicationFactor()))) {
            throw new PolicyViolationException("The service keeps " + factor + " replicas");
        }
    }

    @Override
    public void close() {}
}
