# SPDX-License-Identifier: Apache-2.0
"""A Connect worker: connectors by name, what may be asked of them, shared by a group."""
