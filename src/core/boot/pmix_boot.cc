// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
//
// PMIx, the start-up of Open MPI's mpirun, PRRTE and Slurm. The library is opened at run time, so
// that Torii runs where it is not installed. Every wait is a non-blocking call with a callback
// that may come after we have given up: the state it writes to is shared with it.
#include "config.h"
#include "core/base/little_endian.h"
#include "core/base/log.h"
#include "core/base/param.h"
#include "core/boot/launcher.h"

#if HAVE_PMIX
#include <dlfcn.h>
#include <pmix.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace torii {
namespace {

struct Pmix {
  decltype(&PMIx_Init) init;
  decltype(&PMIx_Finalize) finalize;
  decltype(&PMIx_Put) put;
  decltype(&PMIx_Commit) commit;
  decltype(&PMIx_Fence_nb) fence_nb;
  decltype(&PMIx_Get) get;
  decltype(&PMIx_Get_nb) get_nb;
  decltype(&PMIx_Error_string) error_string;
};

template <typename Function>
bool resolve(void* library, const char* name, Function* to) {
  *to = reinterpret_cast<Function>(dlsym(library, name));
  return *to;
}

// Never closed: the library has a thread of its own.
bool load(Pmix* api, std::string* why) {
  void* library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
  if (library && resolve(library, "PMIx_Init", &api->init) &&
      resolve(library, "PMIx_Finalize", &api->finalize) &&
      resolve(library, "PMIx_Put", &api->put) && resolve(library, "PMIx_Commit", &api->commit) &&
      resolve(library, "PMIx_Fence_nb", &api->fence_nb) &&
      resolve(library, "PMIx_Get", &api->get) && resolve(library, "PMIx_Get_nb", &api->get_nb) &&
      resolve(library, "PMIx_Error_string", &api->error_string)) {
    return true;
  }
  const char* error = dlerror();
  *why = std::string(
             "this process was started by a PMIx launcher, but libpmix.so.2 cannot be "
             "used: ") +
         (error ? error : "unknown error") + "; install it (Debian: libpmix2)";
  return false;
}

// The result that a callback leaves behind.
struct Result {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  pmix_status_t status = PMIX_SUCCESS;
  pmix_data_type_t type = PMIX_UNDEF;
  uint64_t number = 0;
  std::string bytes;  // a string or a byte object
  // Arguments that the library may read until then.
  pmix_proc_t whom = {};
  pmix_info_t option = {};
};
using SharedResult = std::shared_ptr<Result>;

void take_value(const pmix_value_t& value, Result* r) {
  r->type = value.type;
  switch (value.type) {
    case PMIX_UINT16:
      r->number = value.data.uint16;
      break;
    case PMIX_UINT32:
      r->number = value.data.uint32;
      break;
    case PMIX_STRING:
      if (value.data.string) r->bytes = value.data.string;
      break;
    case PMIX_BYTE_OBJECT:
      if (value.data.bo.bytes) r->bytes.assign(value.data.bo.bytes, value.data.bo.size);
      break;
    default:
      break;
  }
}

// A value that PMIx_Get gave to the caller; its parts come from malloc.
void free_value(pmix_value_t* value) {
  if (value->type == PMIX_STRING) free(value->data.string);
  if (value->type == PMIX_BYTE_OBJECT) free(value->data.bo.bytes);
  free(value);
}

void finish(void* context, pmix_status_t status, const pmix_value_t* value) {
  std::unique_ptr<SharedResult> result(static_cast<SharedResult*>(context));
  Result& r = **result;
  std::lock_guard lock(r.mutex);
  r.status = status;
  if (value) take_value(*value, &r);
  r.done = true;
  r.changed.notify_all();
}

void on_fence(pmix_status_t status, void* context) { finish(context, status, nullptr); }
void on_value(pmix_status_t status, pmix_value_t* value, void* context) {
  finish(context, status, value);
}

bool wait(const SharedResult& result) {
  std::unique_lock lock(result->mutex);
  return result->changed.wait_for(lock, std::chrono::milliseconds(params().boot_deadline_ms),
                                  [&] { return result->done; });
}

pmix_proc_t process_name(const char* job, pmix_rank_t rank) {
  pmix_proc_t name = {};
  memcpy(name.nspace, job, strnlen(job, sizeof name.nspace - 1));
  name.rank = rank;
  return name;
}

// The option `key`, switched on.
pmix_info_t switched_on(const char* key) {
  pmix_info_t out = {};
  strncpy(out.key, key, sizeof out.key - 1);
  out.value.type = PMIX_BOOL;
  out.value.data.flag = true;
  return out;
}

class PmixBoot final : public Boot {
 public:
  ~PmixBoot() override {
    if (joined_) pmix_.finalize(nullptr, 0);
  }

  Status open(std::string* why) {
    if (!load(&pmix_, why)) return Status::unsupported;
    Status s = join(why);
    if (s != Status::ok) return s;
    static unsigned opened = 0;
    name_ = "torii.address." + std::to_string(opened++);
    info_.launcher = "PMIx";
    info_.host = host_name();
    info_.job = job_number(std::string("pmix:") + self_.nspace);
    info_.rank = self_.rank;
    s = get_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &info_.size, why);
    if (s == Status::ok) s = find_local_peers(why);
    info_.node = own_node();
    if (s == Status::ok && info_.rank >= info_.size) {
      *why = format_text("the PMIx launcher gives rank %u of %u", info_.rank, info_.size);
      s = Status::corrupt;
    }
    return s;
  }

  Status barrier(std::string* why) override { return fence(false, why); }

 private:
  // PMIx_Init waits for the launcher as long as it lives.
  Status join(std::string* why) {
    struct Joined {
      pmix_status_t status = PMIX_ERROR;
      pmix_proc_t self = {};
    };
    auto joined = std::make_shared<Joined>();
    const Status s = run_with_deadline(
        [joined, init = pmix_.init] { joined->status = init(&joined->self, nullptr, 0); });
    joined_ = s == Status::ok && joined->status == PMIX_SUCCESS;
    if (joined_) {
      self_ = joined->self;
      return Status::ok;
    }
    const std::string reason =
        s == Status::ok ? pmix_.error_string(joined->status)
        : s == Status::timed_out
            ? format_text("nothing came within %lld ms (TORII_BOOT_DEADLINE_MS)",
                          static_cast<long long>(params().boot_deadline_ms))
            : "there is no thread for it (ulimit -u)";
    *why = "the PMIx launcher of this process does not answer: " + reason +
           "; unset PMIX_NAMESPACE if the process was not started by the launcher itself";
    return Status::unreachable;
  }

  // `collect`: every node gets what all have published so far. Slurm's nodes, asked for one value
  // of a process, would not ask for its later ones.
  Status fence(bool collect, std::string* why) {
    auto result = std::make_shared<Result>();
    result->whom = process_name(self_.nspace, PMIX_RANK_WILDCARD);
    result->option = switched_on(PMIX_COLLECT_DATA);
    auto* context = new SharedResult(result);
    pmix_status_t rc = pmix_.fence_nb(&result->whom, 1, collect ? &result->option : nullptr,
                                      collect, on_fence, context);
    if (rc != PMIX_SUCCESS) {
      delete context;
      return rc == PMIX_OPERATION_SUCCEEDED ? Status::ok : failed("PMIx_Fence", rc, why);
    }
    if (!wait(result)) {
      *why = format_text(
          "not all %u processes of the job came within %lld ms; if they need longer, raise "
          "TORII_BOOT_DEADLINE_MS",
          info_.size, static_cast<long long>(params().boot_deadline_ms));
      return Status::timed_out;
    }
    if (result->status == PMIX_SUCCESS) return Status::ok;
    return failed("PMIx_Fence", result->status, why);
  }

  // Launchers tell a process the number of its own node, but not always those of the others: so
  // each process publishes its own, in front of its address.
  Status exchange(std::span<const std::byte> address, std::string* why) override {
    key_ = name_ + "." + std::to_string(exchanges_);
    std::vector<char> card(kNodeBytes + address.size());
    store_little<uint32_t>(reinterpret_cast<std::byte*>(card.data()), info_.node);
    std::transform(address.begin(), address.end(), card.begin() + kNodeBytes,
                   [](std::byte b) { return static_cast<char>(b); });
    pmix_value_t value = {};
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = card.data();
    value.data.bo.size = card.size();
    pmix_status_t rc = pmix_.put(PMIX_GLOBAL, key_.c_str(), &value);
    if (rc != PMIX_SUCCESS) return failed("PMIx_Put", rc, why);
    rc = pmix_.commit();
    if (rc != PMIX_SUCCESS) return failed("PMIx_Commit", rc, why);
    return fence(true, why);
  }

  Status fetch(uint32_t rank, std::vector<std::byte>* address, std::string* why) override {
    std::string card;
    Status s = fetch_card(rank, &card, why);
    if (s != Status::ok) return s;
    const auto* bytes = reinterpret_cast<const std::byte*>(card.data());
    address->assign(bytes + kNodeBytes, bytes + card.size());
    return Status::ok;
  }

  Status list_nodes(std::vector<uint32_t>* nodes, std::string* why) override {
    for (uint32_t r = 0; r < info_.size; ++r) {
      std::string card;
      Status s = fetch_card(r, &card, why);
      if (s != Status::ok) return s;
      (*nodes)[r] = load_little<uint32_t>(reinterpret_cast<const std::byte*>(card.data()));
    }
    return Status::ok;
  }

  // The card that `rank` published: the number of its node and its address.
  Status fetch_card(uint32_t rank, std::string* card, std::string* why) {
    SharedResult result;
    Status s = get(rank, key_.c_str(), &result, why);
    if (s != Status::ok) return s;
    if (result->type != PMIX_BYTE_OBJECT || result->bytes.size() < kNodeBytes ||
        result->bytes.size() > kNodeBytes + kBootAddressMax) {
      *why = format_text("the address that the launcher has of rank %u is malformed", rank);
      return Status::corrupt;
    }
    *card = std::move(result->bytes);
    return Status::ok;
  }

  // The launcher's number of this node; without one, a number made of its name.
  uint32_t own_node() {
    Result result;
    if (get_at_hand(self_, PMIX_NODEID, &result) &&
        (result.type == PMIX_UINT32 || result.type == PMIX_UINT16) && result.number <= kNodeMax) {
      return static_cast<uint32_t>(result.number);
    }
    return static_cast<uint32_t>(job_number(info_.host) % kNodeMax);
  }

  Status find_local_peers(std::string* why) {
    SharedResult result;
    Status s = get(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS, &result, why);
    if (s != Status::ok) return s;
    std::string_view rest = result->bytes;
    bool found = false;
    info_.local_rank = info_.local_size = 0;
    while (!rest.empty()) {
      std::string_view item = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(item.size() + 1, rest.size()));
      uint32_t rank = 0;
      if (!parse_number(item, 0, info_.size - 1, &rank)) break;
      ++info_.local_size;
      info_.local_rank += rank < info_.rank;
      found |= rank == info_.rank;
    }
    if (rest.empty() && found) return Status::ok;
    *why = "the PMIx launcher's list of processes on this node, \"" + result->bytes.substr(0, 200) +
           "\", does not name this one, rank " + std::to_string(info_.rank);
    return Status::corrupt;
  }

  Status get_number(pmix_rank_t rank, const char* key, uint32_t* number, std::string* why) {
    SharedResult result;
    Status s = get(rank, key, &result, why);
    if (s != Status::ok) return s;
    if (result->type != PMIX_UINT32 && result->type != PMIX_UINT16) {
      *why = std::string("the PMIx launcher's value of ") + key + " is no number";
      return Status::corrupt;
    }
    *number = static_cast<uint32_t>(result->number);
    return Status::ok;
  }

  // A value, if this node's part of the launcher has it at hand. Never blocks.
  bool get_at_hand(const pmix_proc_t& name, const char* key, Result* result) {
    const pmix_info_t optional = switched_on(PMIX_OPTIONAL);
    pmix_value_t* value = nullptr;
    if (pmix_.get(&name, key, &optional, 1, &value) != PMIX_SUCCESS || !value) return false;
    take_value(*value, result);
    free_value(value);
    return true;
  }

  Status get(pmix_rank_t rank, const char* key, SharedResult* result, std::string* why) {
    *result = std::make_shared<Result>();
    const pmix_proc_t name = process_name(self_.nspace, rank);
    if (get_at_hand(name, key, result->get())) return Status::ok;
    auto* context = new SharedResult(*result);
    std::string call = std::string("PMIx_Get of ") + key;
    if (rank != PMIX_RANK_WILDCARD) call += " of rank " + std::to_string(rank);
    pmix_status_t rc = pmix_.get_nb(&name, key, nullptr, 0, on_value, context);
    if (rc != PMIX_SUCCESS) {
      delete context;
      return failed(call, rc, why);
    }
    if (!wait(*result)) {
      *why = format_text("%s: no answer within %lld ms", call.c_str(),
                         static_cast<long long>(params().boot_deadline_ms));
      return Status::timed_out;
    }
    if ((*result)->status == PMIX_ERR_TIMEOUT && rank != PMIX_RANK_WILDCARD)
      call = format_text("rank %u has not opened its network interface (%s)", rank, call.c_str());
    return (*result)->status == PMIX_SUCCESS ? Status::ok : failed(call, (*result)->status, why);
  }

  Status failed(const std::string& call, pmix_status_t rc, std::string* why) {
    if (rc == PMIX_ERR_PARTIAL_SUCCESS) {
      *why = "a process of the job ended while the job was starting";
      return Status::peer_dead;
    }
    *why = call + ": " + pmix_.error_string(rc);
    return rc == PMIX_ERR_TIMEOUT ? Status::timed_out : Status::io_error;
  }

  static constexpr size_t kNodeBytes = 4;  // little-endian

  Pmix pmix_ = {};
  pmix_proc_t self_ = {};
  bool joined_ = false;
  std::string name_;
  std::string key_;  // of the newest exchange
};

}  // namespace

std::unique_ptr<Boot> open_pmix_boot(std::string* why) {
  auto boot = std::make_unique<PmixBoot>();
  if (boot->open(why) != Status::ok) return nullptr;
  return boot;
}

}  // namespace torii

#else

namespace torii {

std::unique_ptr<Boot> open_pmix_boot(std::string* why) {
  *why =
      "this process was started by a PMIx launcher, but this Torii was built without PMIx; rebuild "
      "it with PMIx's header (Debian: libpmix-dev)";
  return nullptr;
}

}  // namespace torii
#endif
