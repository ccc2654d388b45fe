# SPDX-License-Identifier: Apache-2.0
"""A Connect worker: connectors by name, shared by the members of a group."""
