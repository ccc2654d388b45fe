# SPDX-License-Identifier: Apache-2.0
"""A Connect worker: connectors by name, each from its own configuration, shared by a group."""
