# SPDX-License-Identifier: Apache-2.0
"""Pure plans for topics, configs and ACLs on the target, and their appliers."""
