# SPDX-License-Identifier: Apache-2.0
"""TLS and SASL settings of clients and listeners."""
