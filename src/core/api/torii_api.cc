// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// torii.h: checks arguments, takes the lock, calls inward, runs callbacks.
#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/api/handles.h"
#include "core/api/read_data.h"
#include "core/api/torii_error.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/torii.h"

namespace torii {
namespace {

thread_local std::string t_error = "no error";
thread_local std::string t_text;

std::mutex g_open_lock;
std::vector<NiPointer> g_open;  // opened by torii_open

// Begins an operation of so many bytes, and says so if it goes on.
template <typename Begin>
int begun(Ni& ni, uint64_t bytes, Begin begin) {
  ni.lock();
  const Status status = begin();
  ni.unlock();
  if (status == Status::pending) ni.begun(bytes);
  return code_of(status);
}

// torii_recv for whatever it cannot post at once.
[[gnu::noinline, gnu::hot]] int recv_any(torii_port_t* handle, torii_peer_t* source, uint64_t tag,
                                         uint64_t ignore, const torii_data_t* in, torii_done_t done,
                                         void* arg, torii_request_t* request,
                                         torii_result_t* result) {
  Data data;
  if (!handle || !in || !done || !result || !read_data(*in, &data))
    return bad_argument("torii_recv", "null pointer or inconsistent data");
  Port* port = port_of(handle);
  return begun(ni_of(port), data.bytes(), [&] {
    return port->ports->receive(*port, {peer_of(source), tag, ignore}, data, done, arg, request,
                                result);
  });
}

}  // namespace

int api_error(int code, std::string why) {
  t_error = std::move(why);
  return code;
}

int bad_argument(const char* function, const char* what) {
  return api_error(TORII_ERR_INVALID, std::string(function) + ": " + what);
}

}  // namespace torii

using namespace torii;

extern "C" {

const char* torii_error(void) { return t_error.c_str(); }

const char* torii_version(void) {
#define TORII_TEXT2(x) #x
#define TORII_TEXT(x) TORII_TEXT2(x)
  return TORII_TEXT(TORII_VERSION_MAJOR) "." TORII_TEXT(TORII_VERSION_MINOR);
}

const char* torii_code_text(int code) {
  switch (code) {
    case TORII_OK:
      return "ok";
    case TORII_PENDING:
      return "pending";
    case TORII_EMPTY:
      return "nothing there";
    case TORII_ERR_INVALID:
      return "invalid argument";
    case TORII_ERR_NO_MEMORY:
      return "out of memory or table space";
    case TORII_ERR_UNREACHABLE:
      return "unreachable";
    case TORII_ERR_PEER_DEAD:
      return "peer is dead";
    case TORII_ERR_PEER_CLOSED:
      return "peer has closed its network interface";
    case TORII_ERR_TRUNCATED:
      return "message truncated";
    case TORII_ERR_CANCELED:
      return "canceled";
    case TORII_ERR_UNSUPPORTED:
      return "unsupported";
    case TORII_ERR_DENIED:
      return "access denied";
    case TORII_ERR_CORRUPT:
      return "corrupt data";
    case TORII_ERR_TIMED_OUT:
      return "timed out";
    case TORII_ERR_IO:
      return "input/output error";
    default:
      return "unknown code";
  }
}

int torii_open(const torii_options_t* options, torii_ni_t** out) {
  if (!options || !out) return bad_argument("torii_open", "null pointer");
  if (options->struct_bytes != sizeof(torii_options_t))
    return api_error(
        TORII_ERR_INVALID,
        format_text("torii_open: options of %zu bytes, this library (%s) expects %zu; the "
                    "program was built with another version of torii.h",
                    options->struct_bytes, torii_version(), sizeof(torii_options_t)));
  if (options->job == 0 || options->rank >= options->size ||
      options->local_rank >= options->local_size || options->local_size > options->size)
    return api_error(
        TORII_ERR_INVALID,
        format_text("torii_open: rank %u of %u, local rank %u of %u, job %llx makes no "
                    "sense; ranks count from 0 and the job is not 0",
                    options->rank, options->size, options->local_rank, options->local_size,
                    static_cast<unsigned long long>(options->job)));
  if (options->lock && (!options->lock->give_up || !options->lock->take))
    return bad_argument("torii_open", "a lock without its functions");
  if (!params().enable)
    return api_error(TORII_ERR_DENIED,
                     "torii_open: the parameter enable is off; unset TORII_ENABLE to use Torii");
  std::lock_guard<std::mutex> guard(g_open_lock);
  for (auto& ni : g_open) {
    const Identity& self = ni->protocol().self();
    if (self.job != options->job || self.rank != options->rank) continue;
    if (ni->callers_lock() != options->lock)
      return api_error(TORII_ERR_INVALID,
                       "torii_open: the interface is open already, with another lock of its "
                       "caller's or none; open it with the same one, or as another job");
    if (options->threads) ni->enable_threads();
    ++ni->references;
    *out = reinterpret_cast<torii_ni_t*>(ni.get());
    return TORII_OK;
  }
  NiConfig config;
  config.self = own_identity();
  config.self.job = options->job;
  config.self.rank = options->rank;
  config.self.nid = options->node;
  config.self.pid = options->local_rank + 1;
  config.size = options->size;
  config.local_size = options->local_size;
  config.threads = options->threads != 0;
  config.lock = options->lock;
  std::string why;
  NiPointer ni = Ni::open(config, &why);
  if (!ni) return api_error(TORII_ERR_UNREACHABLE, why);
  *out = reinterpret_cast<torii_ni_t*>(ni.get());
  g_open.push_back(std::move(ni));
  return TORII_OK;
}

int torii_close(torii_ni_t* ni) {
  std::lock_guard<std::mutex> guard(g_open_lock);
  for (auto it = g_open.begin(); it != g_open.end(); ++it) {
    if (it->get() != ni_of(ni)) continue;
    if (--(*it)->references == 0 && !(*it)->forked()) {
      (*it)->wait_alone();
      (*it)->close();
      g_open.erase(it);
    }
    return TORII_OK;
  }
  return bad_argument("torii_close", "not an open network interface");
}

size_t torii_address(torii_ni_t* ni, void* buffer, size_t capacity) {
  NiGuard guard(*ni_of(ni));
  return ni_of(ni)->protocol().address(static_cast<std::byte*>(buffer), buffer ? capacity : 0);
}

size_t torii_short_address(torii_ni_t* ni, void* buffer, size_t capacity) {
  NiGuard guard(*ni_of(ni));
  return ni_of(ni)->protocol().short_address(static_cast<std::byte*>(buffer),
                                             buffer ? capacity : 0);
}

int torii_connect(torii_ni_t* ni, const void* address, size_t bytes, torii_peer_t** out) {
  if (!ni || !address || !out) return bad_argument("torii_connect", "null pointer");
  Peer* peer = nullptr;
  std::string why;
  ni_of(ni)->lock();
  const Status status =
      ni_of(ni)->connect({static_cast<const std::byte*>(address), bytes}, &peer, &why);
  ni_of(ni)->unlock();
  if (status != Status::ok) return api_error(code_of(status), why);
  *out = reinterpret_cast<torii_peer_t*>(peer);
  return TORII_OK;
}

void torii_peer_identity(const torii_peer_t* peer, uint64_t* job, uint32_t* rank) {
  *job = peer_of(peer)->id.job;
  *rank = peer_of(peer)->id.rank;
}

const char* torii_peer_text(torii_ni_t* ni, const torii_peer_t* peer) {
  NiGuard guard(*ni_of(ni));
  t_text = ni_of(ni)->protocol().describe(*peer_of(peer));
  return t_text.c_str();
}

int torii_peer_may_join(torii_ni_t* ni, const torii_peer_t* peer) {
  NiGuard guard(*ni_of(ni));
  return may_join(*peer_of(peer));
}

int torii_add_directory(torii_ni_t* ni, torii_find_t find, void* arg) {
  if (!ni || !find) return bad_argument("torii_add_directory", "null argument");
  const NiGuard guard(*ni_of(ni));
  ni_of(ni)->directories().add(find, arg);
  return TORII_OK;
}

int torii_remove_directory(torii_ni_t* ni, torii_find_t find, void* arg) {
  if (!ni) return bad_argument("torii_remove_directory", "null argument");
  const NiGuard guard(*ni_of(ni));
  ni_of(ni)->directories().remove(find, arg);
  return TORII_OK;
}

int torii_welcome(torii_ni_t* ni, int strangers) {
  if (!ni) return bad_argument("torii_welcome", "null argument");
  const NiGuard guard(*ni_of(ni));
  ni_of(ni)->directories().welcome(strangers != 0);
  return TORII_OK;
}

const char* torii_missed_network(torii_ni_t* ni) {
  const std::string& reason = ni_of(ni)->missed_network();
  return reason.empty() ? nullptr : reason.c_str();
}

void torii_peer_set_context(torii_peer_t* peer, void* context) { peer_of(peer)->context = context; }
void* torii_peer_context(const torii_peer_t* peer) { return peer_of(peer)->context; }

int torii_progress(torii_ni_t* ni) {
  const int events = ni_of(ni)->make_progress();
  if (events > 0) ni_of(ni)->end_wait_together();
  return events;
}

[[gnu::hot]] int torii_wait_step(torii_ni_t* ni) { return ni_of(ni)->wait_step(); }

void torii_set_others(torii_ni_t* ni, int (*others)(void)) { ni_of(ni)->set_others(others); }

int torii_wait_step_beside(torii_ni_t* ni, uint32_t* rounds) {
  return ni_of(ni)->wait_step_beside(rounds);
}

void torii_give_way(torii_ni_t* ni) { ni_of(ni)->give_way(); }

int torii_test_step(torii_ni_t* handle) {
  Ni* ni = ni_of(handle);
  const int events = ni->make_progress();
  const int rested = ni->rest_after(events, Ni::Waits::looks);
  return events > 0 ? events : rested;
}

int torii_wait_first(torii_ni_t* ni) { return ni_of(ni)->wait_step<Ni::Round::first_event>(); }

int torii_wait_together(torii_ni_t* const* nis, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!nis || !nis[i] || !ni_of(nis[i])->knows_threads())
      return bad_argument("torii_wait_together", "an interface that was not opened with `threads`");
  for (size_t i = 0; i < count; ++i) {
    std::vector<Ni*> others;
    for (size_t j = 0; j < count; ++j)
      if (nis[j] != nis[i]) others.push_back(ni_of(nis[j]));
    ni_of(nis[i])->wait_with(std::move(others));
  }
  return TORII_OK;
}

int torii_wait_any(torii_ni_t* ni) {
  return ni_of(ni)->wait_step<Ni::Round::all, Ni::Waits::any>();
}

int torii_wait(torii_ni_t* ni, int milliseconds) { return ni_of(ni)->wait(milliseconds); }

void torii_on_peer_down(torii_ni_t* ni, torii_peer_down_t callback, void* arg) {
  NiGuard guard(*ni_of(ni));
  ni_of(ni)->set_peer_down(callback, arg);
}

int torii_memory_alloc(torii_ni_t* ni, size_t bytes, size_t alignment, void** address) {
  if (!ni || !address) return bad_argument("torii_memory_alloc", "null pointer");
  if (bytes == 0) return bad_argument("torii_memory_alloc", "0 bytes; ask for at least one");
  if (alignment & (alignment - 1))
    return api_error(
        TORII_ERR_INVALID,
        format_text("torii_memory_alloc: an alignment of %zu, it must be a power of two",
                    alignment));
  NiGuard guard(*ni_of(ni));
  const Status status = ni_of(ni)->allocations().alloc(bytes, alignment, address);
  if (status == Status::ok) return TORII_OK;
  return api_error(code_of(status),
                   format_text("torii_memory_alloc: no memory for %zu bytes with an "
                               "alignment of %zu; ask for less, or raise ulimit -v",
                               bytes, alignment));
}

int torii_memory_free(torii_ni_t* ni, void* address) {
  if (!ni || !address) return bad_argument("torii_memory_free", "null pointer");
  NiGuard guard(*ni_of(ni));
  const uint64_t bytes = ni_of(ni)->allocations().bytes(address);
  if (bytes && !ni_of(ni)->exports().revoke(address, bytes)) {
    ni_of(ni)->allocations().retire(address);
    return TORII_OK;
  }
  if (ni_of(ni)->allocations().free(address)) return TORII_OK;
  return api_error(
      TORII_ERR_INVALID,
      format_text("torii_memory_free: %p is no address that torii_memory_alloc gave, or "
                  "was given back already",
                  address));
}

torii_ni_t* torii_current(void) {
  std::lock_guard<std::mutex> guard(g_open_lock);
  return g_open.empty() ? nullptr : reinterpret_cast<torii_ni_t*>(g_open.front().get());
}

int torii_port_open(torii_ni_t* ni, unsigned index, torii_port_t** out) {
  if (!ni || !out) return bad_argument("torii_port_open", "null pointer");
  if (index > TORII_PORT_MAX)
    return api_error(TORII_ERR_INVALID, format_text("torii_port_open: port %u, the highest is %d",
                                                    index, TORII_PORT_MAX));
  NiGuard guard(*ni_of(ni));
  Port* port = ni_of(ni)->ports().port(index);
  ++port->opened;
  *out = reinterpret_cast<torii_port_t*>(port);
  return TORII_OK;
}

int torii_port_close(torii_port_t* handle) {
  if (!handle) return bad_argument("torii_port_close", "null pointer");
  Port* port = port_of(handle);
  NiGuard guard(ni_of(port));
  if (port->opened == 0) return bad_argument("torii_port_close", "the port is not open");
  if (--port->opened == 0) port->ports->clear(*port);
  return TORII_OK;
}

int torii_port_prompt(torii_port_t* handle, torii_done_t done, torii_prompt_t prompt) {
  if (!handle || (!done && prompt)) return bad_argument("torii_port_prompt", "null pointer");
  Port* port = port_of(handle);
  NiGuard guard(ni_of(port));
  port->prompted = prompt ? done : nullptr;
  port->prompt = prompt;
  return TORII_OK;
}

int torii_port_in_order(torii_port_t* handle) {
  if (!handle) return bad_argument("torii_port_in_order", "null pointer");
  Port* port = port_of(handle);
  NiGuard guard(ni_of(port));
  port->in_order = true;
  return TORII_OK;
}

void torii_flag(void* arg, const torii_result_t* result) {
  auto* flag = static_cast<torii_flag_t*>(arg);
  flag->result = *result;
  __atomic_store_n(&flag->done, 1, __ATOMIC_RELEASE);
}

int torii_send(torii_port_t* handle, torii_peer_t* peer, torii_mode_t mode, uint64_t tag,
               uint32_t user, const torii_data_t* in, torii_done_t done, void* arg,
               torii_request_t* request) {
  Data data;
  if (!handle || !peer || !in || !done || !read_data(*in, &data))
    return bad_argument("torii_send", "null pointer or inconsistent data");
  Port* port = port_of(handle);
  return begun(ni_of(port), data.bytes(), [&] {
    if (port->ports->send_now(*port, *peer_of(peer), mode, tag, user, data)) return Status::ok;
    return port->ports->send(*port, *peer_of(peer), mode, tag, user, data, done, arg, request);
  });
}

[[gnu::hot]] int torii_send_now(torii_port_t* handle, torii_peer_t* peer, uint64_t tag,
                                uint32_t user, const void* base, uint64_t bytes) {
  if (!handle || !peer || !sound(base, bytes)) return TORII_EMPTY;
  Port* port = port_of(handle);
  NiGuard guard(ni_of(port));
  const bool sent = port->ports->send_now(*port, *peer_of(peer), tag, user, base, bytes);
  return sent ? TORII_OK : TORII_EMPTY;
}

// Another thread may run the callback as soon as the lock is given up: *request is written before.
[[gnu::always_inline]] static inline torii_request_t post(torii_port_t* handle,
                                                          torii_peer_t* source, uint64_t tag,
                                                          uint64_t ignore, void* base,
                                                          uint64_t bytes, torii_done_t done,
                                                          void* arg, torii_request_t* request) {
  if (!handle || !done || !sound(base, bytes)) return 0;
  Port* port = port_of(handle);
  Ni& ni = ni_of(port);
  ni.lock();
  const torii_request_t posted =
      port->ports->post(*port, {peer_of(source), tag, ignore}, base, bytes, done, arg);
  if (posted && request) *request = posted;
  ni.unlock();
  if (posted) ni.begun(bytes);
  return posted;
}

[[gnu::hot]] int torii_recv(torii_port_t* handle, torii_peer_t* source, uint64_t tag,
                            uint64_t ignore, const torii_data_t* in, torii_done_t done, void* arg,
                            torii_request_t* request, torii_result_t* result) {
  if (in && result && in->layout == TORII_CONTIGUOUS &&
      post(handle, source, tag, ignore, in->base, in->bytes, done, arg, request))
    return TORII_PENDING;
  return recv_any(handle, source, tag, ignore, in, done, arg, request, result);
}

[[gnu::hot]] torii_request_t torii_post(torii_port_t* handle, torii_peer_t* source, uint64_t tag,
                                        uint64_t ignore, void* base, uint64_t bytes,
                                        torii_done_t done, void* arg) {
  return post(handle, source, tag, ignore, base, bytes, done, arg, nullptr);
}

int torii_probe(torii_port_t* handle, torii_peer_t* source, uint64_t tag, uint64_t ignore,
                torii_result_t* result) {
  if (!handle || !result) return bad_argument("torii_probe", "null pointer");
  Port* port = port_of(handle);
  NiGuard guard(ni_of(port));
  const bool found = port->ports->probe(*port, {peer_of(source), tag, ignore}, result);
  return found ? TORII_OK : TORII_EMPTY;
}

int torii_mprobe(torii_port_t* handle, torii_peer_t* source, uint64_t tag, uint64_t ignore,
                 torii_message_t** message, torii_result_t* result) {
  if (!handle || !message || !result) return bad_argument("torii_mprobe", "null pointer");
  Port* port = port_of(handle);
  NiGuard guard(ni_of(port));
  Unexpected* taken = port->ports->take(*port, {peer_of(source), tag, ignore}, result);
  if (!taken) return TORII_EMPTY;
  *message = reinterpret_cast<torii_message_t*>(taken);
  return TORII_OK;
}

int torii_mrecv(torii_port_t* handle, torii_message_t* message, const torii_data_t* in,
                torii_done_t done, void* arg, torii_request_t* request, torii_result_t* result) {
  Data data;
  if (!handle || !message || !in || !done || !result || !read_data(*in, &data))
    return bad_argument("torii_mrecv", "null pointer or inconsistent data");
  Port* port = port_of(handle);
  return begun(ni_of(port), data.bytes(), [&] {
    return port->ports->receive_taken(reinterpret_cast<Unexpected*>(message), true, data, done, arg,
                                      request, result);
  });
}

int torii_cancel(torii_ni_t* handle, torii_request_t request) {
  if (!handle) return bad_argument("torii_cancel", "null pointer");
  Ni& ni = *ni_of(handle);
  ni.lock();
  const bool canceled = ni.ports().cancel(request);
  ni.unlock();
  if (!canceled) return TORII_EMPTY;
  ni.run_callbacks();
  return TORII_OK;
}

int torii_group_open(torii_ni_t* handle, const void* name, size_t name_bytes,
                     torii_peer_t* const* members, size_t count, torii_group_t** out) {
  if (!handle || !name || (count > 0 && !members) || !out)
    return bad_argument("torii_group_open", "null pointer");
  if (name_bytes == 0 || name_bytes > kGroupNameMax)
    return api_error(TORII_ERR_INVALID,
                     format_text("torii_group_open: a name of %zu bytes, it must have 1 to %zu",
                                 name_bytes, kGroupNameMax));
  Ni& ni = *ni_of(handle);
  NiGuard guard(ni);
  std::vector<Peer*> peers;
  for (size_t i = 0; i < count; ++i) {
    Peer* peer = peer_of(members[i]);
    if (!peer || !ni.protocol().knows(*peer))
      return api_error(TORII_ERR_INVALID,
                       format_text("torii_group_open: member %zu is no peer of this interface", i));
    peers.push_back(peer);
  }
  Group* group = nullptr;
  std::string why;
  const Status status =
      ni.open_group({static_cast<const char*>(name), name_bytes}, peers, &group, &why);
  if (status != Status::ok) return api_error(code_of(status), "torii_group_open: " + why);
  *out = reinterpret_cast<torii_group_t*>(group);
  return TORII_OK;
}

int torii_group_close(torii_group_t* handle) {
  if (!handle) return bad_argument("torii_group_close", "null pointer");
  Group* group = group_of(handle);
  NiGuard guard(ni_of(group));
  ni_of(group).collectives().close(*group);
  group->groups->close(group);
  return TORII_OK;
}

int torii_group_send(torii_group_t* handle, torii_port_t* port, uint64_t tag, uint32_t user,
                     const torii_data_t* in, torii_done_t done, void* arg) {
  Data data;
  if (!handle || !port || !in || !done || !read_data(*in, &data))
    return bad_argument("torii_group_send", "null pointer or inconsistent data");
  Group* group = group_of(handle);
  if (port_of(port)->owner != group->owner)
    return bad_argument("torii_group_send", "group and port belong to different interfaces");
  return begun(ni_of(group), data.bytes(), [&] {
    return group->groups->send(*group, port_of(port)->index, tag, user, data, done, arg);
  });
}

torii_path_t torii_group_path(const torii_group_t* group) {
  NiGuard guard(ni_of(group_of(group)));
  return group_of(group)->groups->multicast(*group_of(group)) ? TORII_MULTICAST : TORII_UNICAST;
}

const char* torii_group_text(const torii_group_t* group) {
  NiGuard guard(ni_of(group_of(group)));
  t_text = group_of(group)->groups->describe(*group_of(group));
  return t_text.c_str();
}

size_t torii_param_count(void) { return param_count(); }

int torii_param_info(size_t index, torii_param_t* out) {
  if (!out || index >= param_count()) return bad_argument("torii_param_info", "no such parameter");
  const ParamInfo& info = param_info(index);
  *out = {info.name, info.variable, info.default_text, info.doc};
  return TORII_OK;
}

const char* torii_param_value(size_t index) {
  t_text = index < param_count() ? param_text(index) : "";
  return t_text.c_str();
}

const char* torii_param_origin(size_t index) {
  t_text = index < param_count() ? param_origin(index) : "";
  return t_text.c_str();
}

int torii_param_set(const char* name, const char* value, const char* origin) {
  if (!name || !value || !origin) return bad_argument("torii_param_set", "null pointer");
  std::string why;
  const Status status = param_set(name, value, origin, &why);
  return status == Status::ok ? TORII_OK : api_error(code_of(status), why);
}

size_t torii_counter_count(void) { return kCounterCount; }

const char* torii_counter_name(size_t index) {
  return index < kCounterCount ? kCounterInfo[index].name : "";
}

const char* torii_counter_doc(size_t index) {
  return index < kCounterCount ? kCounterInfo[index].doc : "";
}

uint64_t torii_counter_value(torii_ni_t* ni, size_t index) {
  if (!ni || index >= kCounterCount) return 0;
  NiGuard guard(*ni_of(ni));
  return counter_value(ni_of(ni)->counters(), index);
}

}  // extern "C"
