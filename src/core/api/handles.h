// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// The objects behind the handles of torii.h.
#pragma once

#include "core/ni/ni.h"
#include "core/torii.h"

namespace torii {

inline Ni* ni_of(torii_ni_t* ni) { return reinterpret_cast<Ni*>(ni); }
inline Peer* peer_of(torii_peer_t* peer) { return reinterpret_cast<Peer*>(peer); }
inline const Peer* peer_of(const torii_peer_t* peer) { return reinterpret_cast<const Peer*>(peer); }
inline Port* port_of(torii_port_t* port) { return reinterpret_cast<Port*>(port); }
inline Group* group_of(torii_group_t* group) { return reinterpret_cast<Group*>(group); }
inline const Group* group_of(const torii_group_t* group) {
  return reinterpret_cast<const Group*>(group);
}
inline Export* export_of(torii_export_t* e) { return reinterpret_cast<Export*>(e); }
inline Import* import_of(torii_import_t* i) { return reinterpret_cast<Import*>(i); }

// The interface that something belongs to.
inline Ni& ni_of(const Group* group) { return *static_cast<Ni*>(group->owner); }
inline Ni& ni_of(const Port* port) { return *static_cast<Ni*>(port->owner); }
inline Ni& ni_of(const Export* e) { return *static_cast<Ni*>(e->owner); }
inline Ni& ni_of(const Import* i) { return *static_cast<Ni*>(i->owner); }

}  // namespace torii
