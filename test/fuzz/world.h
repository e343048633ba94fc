// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// For protocol_fuzz: an interface over a fake driver, two peers that say what the fuzzer makes
// them say, and a user whose memory is exactly as large as promised and freed as early as
// allowed.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "core/api/ni_registry.h"
#include "core/ni/ni.h"
#include "core/portals3.h"
#include "fake_driver.h"
#include "fuzz/input.h"

namespace torii::fuzz {

inline constexpr unsigned kFuzzPeers = 2;
inline constexpr unsigned kFuzzPorts = 2;

class World;

// Memory of one operation.
struct Lent {
  World* world;
  bool receive;
  bool any_source;
  uint64_t bytes;
  uint64_t next_offset = 0;  // pack and unpack functions are called in order
  std::vector<std::unique_ptr<char[]>> blocks;
  std::vector<iovec> pieces;
  std::list<Lent>::iterator self;
};

class World {
 public:
  explicit World(Input& in);
  ~World();
  World(const World&) = delete;

  // One thing happens.
  void step();
  // Both peers leave; whatever can end must have ended.
  void finish();

 private:
  // Announced or streamed payloads that the peers still owe.
  struct Inflow {
    unsigned peer;
    uint64_t op;  // handle at the interface; 0: the peer's eager message
    uint64_t moved;
  };

  torii_ni_t* handle() { return reinterpret_cast<torii_ni_t*>(ni_.get()); }
  torii_peer_t* peer(unsigned i) { return reinterpret_cast<torii_peer_t*>(peers_[i]); }
  void progress();
  void read_sent();

  // frames of the peers
  void connect(unsigned peer);
  void tagged_frame();
  void request_frame();
  void announced_frame(const wire::Request& request, const std::string& key);
  void control_frame();
  void more_frame();
  void data_frame();
  void raw_frame();
  void deliver(unsigned peer, const std::string& head, const std::string& rest);
  uint64_t some_handle();

  // the user, tagged ports
  Lent* lend(bool receive);
  torii_data_t describe(Lent* lent, uint8_t layout);
  void give_back(Lent* lent);
  void post();
  void send();
  void cancel();
  void probe();
  static void done(void* arg, const torii_result_t* result);
  static void pack(void* context, uint64_t offset, void* buffer, size_t bytes);
  static void unpack(void* context, uint64_t offset, const void* buffer, size_t bytes);

  // exports and imports
  struct Free {
    void operator()(char* p) const { operator delete[](p, std::align_val_t{16}); }
  };
  struct Exported {
    World* world = nullptr;
    torii_export_t* handle = nullptr;
    std::unique_ptr<char[], Free> memory;
    uint64_t bytes = 0;
    unsigned access = 0;
    std::string key;
  };
  void memory_step();
  void memory_frame();
  void puts_frame(uint64_t handle, uint64_t label);
  void update_frame(uint64_t handle, uint64_t label);
  void updated_frame();
  void open_export();
  void end_export();
  void open_import();
  void reach_out();
  void close_memory();
  void check_exports();
  static void ended(void* arg, const torii_result_t* result);

  // the user, Portals
  void open_portals();
  void portals_step();
  void attach();
  void start_transfer();
  void unlink_something();
  ptl_md_t descriptor();

  Input& in_;
  uint64_t clock_ = 0;
  std::unique_ptr<Ni> ni_;
  test::FakeDriver* driver_ = nullptr;
  Peer* peers_[kFuzzPeers] = {};
  unsigned lives_[kFuzzPeers] = {};
  torii_port_t* ports_[kFuzzPorts] = {};
  std::list<Lent> lent_;
  std::deque<uint64_t> handles_;  // that the interface told the peers
  std::vector<torii_request_t> requests_;
  std::deque<Inflow> inflows_;
  uint64_t more_at_[kFuzzPeers] = {};
  unsigned reenter_ = 0;

  std::vector<std::unique_ptr<Exported>> exports_;
  std::vector<std::unique_ptr<Exported>> ending_;
  std::vector<std::string> old_keys_;
  std::vector<torii_import_t*> imports_;
  std::vector<Lent*> posted_;  // used by accesses whose end nobody is told

  ptl_handle_ni_t portals_ = PTL_INVALID_HANDLE;
  ptl_handle_eq_t eq_ = PTL_EQ_NONE;
  std::vector<ptl_handle_me_t> mes_;
  std::vector<ptl_handle_md_t> mds_;
  std::vector<std::unique_ptr<char[]>> portals_memory_;
};

}  // namespace torii::fuzz
