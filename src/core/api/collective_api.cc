// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// torii.h, collective operations: checks arguments, takes the lock, calls inward.
#include "core/api/handles.h"
#include "core/api/read_data.h"
#include "core/api/torii_error.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/torii.h"

using namespace torii;

namespace {

thread_local std::string t_collectives_text;

// Contiguous memory of every member: the largest that a sum of all may have.
constexpr uint64_t kCollectiveMost = uint64_t{1} << 47;

// An error that begins with the name of the function and names the member it is about.
[[gnu::noinline, gnu::cold]] int collective_error(const char* function, const Group& group,
                                                  Status status, const Collectives& collectives) {
  const std::string culprit = collectives.culprit(group);
  const std::string text = std::string(function) + ": ";
  if (status == Status::unsupported)
    return api_error(code_of(status), text + collectives.describe(group));
  if (status == Status::invalid)
    return api_error(code_of(status), text +
                                          "members of the group called different operations, or "
                                          "the same with other sizes or roots");
  return api_error(code_of(status),
                   text + (culprit.empty() ? "a member" : culprit) + ": " + status_text(status));
}

int start_call(const char* function, torii_group_t* handle, const CollectiveCall& call) {
  Group& group = *group_of(handle);
  Ni& ni = ni_of(&group);
  ni.lock();
  const Status status = ni.collectives().start(group, call);
  int code = code_of(status);
  if (status ==
      Status::unsupported) {  // often, between nodes: the reason is told if it is asked for
    code = api_error(code, "this operation is not served; torii_group_collectives() tells what is");
  } else if (status != Status::ok && status != Status::pending) {
    code = collective_error(function, group, status, ni.collectives());
  }
  ni.unlock();
  return code;
}

bool sound_call(const torii_group_t* group, uint64_t bytes, torii_done_t done) {
  return group && done && bytes <= kCollectiveMost;
}

CollectiveCall parts_call(Collective what, const void* in, void* out, uint64_t bytes,
                          torii_done_t done, void* arg) {
  CollectiveCall call;
  call.what = what;
  call.bytes = bytes;
  call.in = static_cast<const std::byte*>(in);
  call.out = static_cast<std::byte*>(out);
  call.lacks_memory = !sound(out, bytes);
  call.done = done;
  call.arg = arg;
  return call;
}

int reduce_call(const char* function, torii_group_t* group, Collective what, uint32_t root,
                const void* in, void* out, uint64_t bytes, const torii_reduction_t* how,
                torii_done_t done, void* arg) {
  if (!sound_call(group, bytes, done) || !how || !how->combine)
    return bad_argument(function, "null pointer, or too many bytes");
  if (how->element == 0 || bytes % how->element)
    return api_error(TORII_ERR_INVALID, format_text("%s: %llu bytes in elements of %llu", function,
                                                    static_cast<unsigned long long>(bytes),
                                                    static_cast<unsigned long long>(how->element)));
  const bool result = what == Collective::allreduce || group_of(group)->self == root;
  CollectiveCall call = parts_call(what, in, out, bytes, done, arg);
  call.root = root;
  call.lacks_memory = !sound(result ? out : in, bytes);
  call.reduction = {how->combine, how->context, how->element};
  return start_call(function, group, call);
}

bool bad_root(const torii_group_t* group, uint32_t root) {
  return group && root >= group_of(group)->order.size();
}

int root_error(const char* function, const torii_group_t* group, uint32_t root) {
  return api_error(TORII_ERR_INVALID, format_text("%s: root %u of %zu members", function, root,
                                                  group_of(group)->order.size()));
}

}  // namespace

extern "C" {

int torii_group_prepare(torii_group_t* handle, torii_done_t done, void* arg) {
  if (!handle || !done) return bad_argument("torii_group_prepare", "null pointer");
  Group& group = *group_of(handle);
  if (group.self >= group.order.size())
    return bad_argument("torii_group_prepare",
                        "this process was not named when the group was opened");
  Ni& ni = ni_of(&group);
  const NiGuard guard(ni);
  const Status status = ni.collectives().prepare(group, done, arg);
  if (status == Status::ok || status == Status::pending) return code_of(status);
  if (status == Status::invalid)
    return bad_argument("torii_group_prepare", "the group is being prepared already");
  return collective_error("torii_group_prepare", group, status, ni.collectives());
}

const char* torii_group_collectives(const torii_group_t* handle) {
  const Group& group = *group_of(handle);
  const NiGuard guard(ni_of(&group));
  t_collectives_text = ni_of(&group).collectives().describe(group);
  return t_collectives_text.c_str();
}

int torii_group_barrier(torii_group_t* group, torii_done_t done, void* arg) {
  if (!group || !done) return bad_argument("torii_group_barrier", "null pointer");
  return start_call("torii_group_barrier", group,
                    parts_call(Collective::barrier, nullptr, nullptr, 0, done, arg));
}

int torii_group_bcast(torii_group_t* group, uint32_t root, const torii_data_t* in,
                      torii_done_t done, void* arg) {
  CollectiveCall call = parts_call(Collective::bcast, nullptr, nullptr, 0, done, arg);
  call.lacks_memory = in && in->layout == TORII_CONTIGUOUS && !sound(in->base, in->bytes);
  if (!group || !done || !in || (!call.lacks_memory && !read_data(*in, &call.data)))
    return bad_argument("torii_group_bcast", "null pointer or inconsistent data");
  if (bad_root(group, root)) return root_error("torii_group_bcast", group, root);
  call.root = root;
  call.bytes = in->bytes;
  return start_call("torii_group_bcast", group, call);
}

int torii_group_reduce(torii_group_t* group, uint32_t root, const void* in, void* out,
                       uint64_t bytes, const torii_reduction_t* how, torii_done_t done, void* arg) {
  if (bad_root(group, root)) return root_error("torii_group_reduce", group, root);
  return reduce_call("torii_group_reduce", group, Collective::reduce, root, in, out, bytes, how,
                     done, arg);
}

int torii_group_allreduce(torii_group_t* group, const void* in, void* out, uint64_t bytes,
                          const torii_reduction_t* how, torii_done_t done, void* arg) {
  return reduce_call("torii_group_allreduce", group, Collective::allreduce, 0, in, out, bytes, how,
                     done, arg);
}

int torii_group_allgather(torii_group_t* group, const void* in, void* out, uint64_t bytes,
                          torii_done_t done, void* arg) {
  if (!sound_call(group, bytes, done))
    return bad_argument("torii_group_allgather", "null pointer, or too many bytes");
  return start_call("torii_group_allgather", group,
                    parts_call(Collective::allgather, in, out, bytes, done, arg));
}

int torii_group_alltoall(torii_group_t* group, const void* in, void* out, uint64_t bytes,
                         torii_done_t done, void* arg) {
  if (!sound_call(group, bytes, done))
    return bad_argument("torii_group_alltoall", "null pointer, or too many bytes");
  return start_call("torii_group_alltoall", group,
                    parts_call(Collective::alltoall, in, out, bytes, done, arg));
}

}  // extern "C"
