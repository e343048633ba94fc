// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) 2026, the Torii authors
#include "sim/portals_model_traffic.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace torii::model {

namespace {

constexpr uint64_t kTopBits = uint64_t{3} << 60;

const char* text_of(int rc) { return PtlErrorStr(unsigned(rc)); }

}  // namespace

Traffic::Traffic(World& world, Random& random, bool verbose)
    : world_(world),
      model_(world.model()),
      random_(random),
      verbose_(verbose),
      patient_(random.next() % 3 == 0),
      portals_(unsigned(random.between(1, 3))),
      favourite_(world.size()),
      pieces_(5) {}

void Traffic::say(const char* format, ...) {
  ++calls;
  if (!verbose_) return;
  std::printf("%9llu ns: ", static_cast<unsigned long long>(world_.fabric().now_ns()));
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
}

void Traffic::check(int rc, int expected, const char* what) {
  if (rc == expected) return;
  model_.fail(std::string(what) + " returned " + text_of(rc) + ", the model " + text_of(expected));
}

// --- random things --------------------------------------------------------------------------

unsigned Traffic::someone() {
  unsigned p;
  do p = unsigned(below(world_.size()));
  while (!world_.alive(p));
  return p;
}

// Few different values, so that most requests find an entry and several entries match.
Criterion Traffic::criterion() {
  Criterion c;
  const ptl_process_id_t one = world_.node(unsigned(below(world_.size()))).id();
  switch (below(8)) {
    case 0:
      c.match_id = one;
      break;
    case 1:
      c.match_id.nid = one.nid;
      break;
    case 2:
      c.match_id.pid = one.pid;
      break;
    default:
      break;
  }
  constexpr uint64_t kIgnored[] = {0, 0, 1, 3, kTopBits, kTopBits | 3, ~uint64_t{0}};
  c.match_bits = below(4) | (one_in(3) ? uint64_t{1} << 60 : 0);
  c.ignore_bits = kIgnored[below(std::size(kIgnored))];
  // Without this part it matches only requests without a serial number in their bits.
  if (!one_in(5)) c.ignore_bits |= kSerialBits;
  c.unlink = one_in(2) ? PTL_UNLINK : PTL_RETAIN;
  return c;
}

uint64_t Traffic::request_bits(bool serial_in_bits, uint32_t serial) {
  const uint64_t bits = below(4) | (one_in(3) ? uint64_t{1} << 60 : 0);
  return bits | (serial_in_bits ? uint64_t{serial} << kSerialShift : 0);
}

uint64_t Traffic::length() {
  switch (below(8)) {
    case 0:
      return 0;
    case 1:
      return random_.between(300, 1500);
    case 2:
      return random_.between(1500, 6000);
    case 3:
      return random_.between(100, 600);
    default:
      return random_.between(1, 100);
  }
}

// A descriptor of memory anywhere, which other descriptors may have, too.
ptl_md_t Traffic::md(unsigned p, bool target) {
  Node& node = world_.node(p);
  ptl_md_t md{};
  constexpr unsigned kOptions[] = {PTL_MD_MANAGE_REMOTE, PTL_MD_ACK_DISABLE, PTL_MD_MAX_SIZE,
                                   PTL_MD_EVENT_START_DISABLE, PTL_MD_EVENT_END_DISABLE};
  for (unsigned option : kOptions)
    if (one_in(5)) md.options |= option;
  if (!one_in(3)) md.options |= PTL_MD_TRUNCATE;
  if (target) md.options |= one_in(3) ? 3 : one_in(3) ? PTL_MD_OP_GET : PTL_MD_OP_PUT;
  const uint64_t bytes = length() * (target ? random_.between(1, 3) : 1);
  const uint64_t start = target ? below(Node::kTargetMemory - bytes)
                                : random_.between(Node::kTargetMemory, Node::kMemory - bytes);
  if (one_in(4)) {
    const uint64_t count = random_.between(0, pieces_.size());
    // Pieces in ascending order, with holes, some of them empty.
    uint64_t from = start;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t left = start + bytes - from;
      const uint64_t take = one_in(6) ? 0 : i + 1 == count ? left : below(left + 1);
      const uint64_t hole = take > 1 && one_in(2) ? 1 : 0;
      pieces_[i] = {node.memory.data() + from, take - hole};
      from += take;
    }
    md.options |= PTL_MD_IOVEC;
    md.start = pieces_.data();
    md.length = count;
  } else {
    md.start = bytes == 0 && one_in(2) ? nullptr : node.memory.data() + start;
    md.length = bytes;
  }
  constexpr int kThresholds[] = {
      PTL_MD_THRESH_INF, PTL_MD_THRESH_INF, PTL_MD_THRESH_INF, 0, 1, 1, 2, 3, 5};
  md.threshold = kThresholds[below(std::size(kThresholds))];
  md.max_size = one_in(2) ? bytes / 2 : length();
  md.user_ptr = &node.memory[below(100)];
  md.eq_handle = one_in(8) ? PTL_EQ_NONE : node.queues[below(Node::kQueues)];
  return md;
}

// Rarely, something that the library must refuse.
void Traffic::spoil(ptl_md_t* md) {
  if (!one_in(50)) return;
  switch (below(3)) {
    case 0:
      md->options |= PTL_MD_EVENT_END_DISABLE << 1;
      break;
    case 1:
      md->threshold = PTL_MD_THRESH_INF - 1;
      break;
    default:
      md->start = nullptr;
      break;
  }
}

ptl_handle_me_t Traffic::some_me(unsigned p) {
  auto& mes = model_.process(p).mes;
  if (mes.empty()) return PTL_INVALID_HANDLE;
  const auto it = std::next(mes.begin(), long(below(mes.size())));
  const std::shared_ptr<Md>& md = it->second->md;
  return md && !model_.certain(p, *md) ? PTL_INVALID_HANDLE : it->first;
}

std::shared_ptr<Md> Traffic::some_md(unsigned p, bool bound) {
  auto& mds = model_.process(p).mds;
  for (unsigned tries = 0; tries < 10 && !mds.empty(); ++tries) {
    const auto it = std::next(mds.begin(), long(below(mds.size())));
    if (bound == (it->second->me == nullptr) && model_.certain(p, *it->second)) return it->second;
  }
  return nullptr;
}

// To send from or to receive into: mostly a bound one, sometimes that of an entry.
std::shared_ptr<Md> Traffic::some_source(unsigned p, uint64_t most) {
  for (unsigned tries = 0; tries < 6; ++tries) {
    const auto md = some_md(p, !one_in(6));
    if (md && md->at.size() <= most && (md->active || one_in(6))) return md;
  }
  bind(p);
  const auto md = some_md(p, true);
  return md && md->at.size() <= most ? md : nullptr;
}

std::shared_ptr<Request> Traffic::request(unsigned p, Verb verb) {
  auto r = std::make_shared<Request>();
  r->verb = verb;
  r->serial = serial_++;
  r->from = p;
  // Usually to a living process; to one that died it is no error.
  do r->to = unsigned(below(world_.size()));
  while (!world_.alive(r->to) && !one_in(3));
  if (favourite_ < world_.size() && !one_in(3)) r->to = favourite_;
  if (one_in(60)) r->to = world_.size();  // nobody
  r->pt_index = ptl_pt_index_t(below(portals_));
  if (one_in(60)) r->pt_index = one_in(2) ? Process::kPortals : 300;
  r->ac_index = one_in(5) ? ptl_ac_index_t(below(3)) : 0;
  if (one_in(60)) r->ac_index = Process::kAccess;
  r->bits = request_bits(verb != Verb::put || one_in(2), r->serial);
  r->offset = one_in(3) ? below(300) : 0;
  r->hdr_data = verb == Verb::get ? 0 : random_.next() << 32 | r->serial;
  r->want_ack = verb == Verb::put && one_in(2);
  return r;
}

ptl_process_id_t Traffic::target_of(const Request& r) {
  if (r.to < world_.size()) return world_.node(r.to).id();
  if (one_in(3)) return {PTL_NID_ANY, PTL_PID_ANY};
  return {99, 1};
}

// A process that died stays known to those that have met it; nobody else reaches it.
bool Traffic::reachable(const Request& r) {
  if (r.to >= world_.size()) return false;
  if (world_.alive(r.to)) return true;
  const ptl_process_id_t id = world_.node(r.to).id();
  const Peer* peer = world_.node(r.from).protocol.find_process(id.nid, id.pid);
  return peer && peer->driver;
}

Model::Region Traffic::region(const Md& md) {
  Model::Region out;
  if (one_in(2)) return out;
  const uint64_t bytes = md.at.size();
  out.all = false;
  out.local = below(bytes + 1);
  out.length = below(bytes - out.local + 1);
  if (one_in(30)) out.length = bytes - out.local + 1;
  return out;
}

// --- match entries --------------------------------------------------------------------------

void Traffic::attach(unsigned p) {
  const ptl_handle_ni_t ni = world_.node(p).handle;
  const Criterion c = criterion();
  ptl_handle_me_t me = PTL_INVALID_HANDLE;
  if (one_in(20)) {
    ptl_pt_index_t any = 0;
    const int rc = PtlMEAttachAny(ni, &any, c.match_id, c.match_bits, c.ignore_bits, c.unlink, &me);
    say("%u PtlMEAttachAny portal %u: %s", p, any, text_of(rc));
    return model_.me_attach_any(p, any, c, rc, me);
  }
  const ptl_pt_index_t pt = one_in(60) ? 64 : ptl_pt_index_t(below(portals_));
  const ptl_ins_pos_t position = one_in(2) ? PTL_INS_BEFORE : PTL_INS_AFTER;
  const int rc =
      PtlMEAttach(ni, pt, c.match_id, c.match_bits, c.ignore_bits, c.unlink, position, &me);
  say("%u PtlMEAttach portal %u %s id %d/%d bits 0x%llx ignore 0x%llx %s: %s", p, pt,
      position == PTL_INS_BEFORE ? "head" : "tail", int(c.match_id.nid), int(c.match_id.pid),
      static_cast<unsigned long long>(c.match_bits), static_cast<unsigned long long>(c.ignore_bits),
      c.unlink == PTL_UNLINK ? "unlink" : "retain", text_of(rc));
  model_.me_attach(p, pt, c, position, rc, me);
  world_.drain(p);
  if (rc == PTL_OK && !one_in(6)) attach_md(p);
}

void Traffic::insert(unsigned p) {
  const ptl_handle_me_t base = some_me(p);
  const Criterion c = criterion();
  const ptl_ins_pos_t position = one_in(2) ? PTL_INS_BEFORE : PTL_INS_AFTER;
  ptl_handle_me_t me = PTL_INVALID_HANDLE;
  const int rc =
      PtlMEInsert(base, c.match_id, c.match_bits, c.ignore_bits, c.unlink, position, &me);
  say("%u PtlMEInsert %s: %s", p, position == PTL_INS_BEFORE ? "before" : "after", text_of(rc));
  model_.me_insert(p, base, c, position, rc, me);
  world_.drain(p);
  if (rc == PTL_OK && !one_in(6)) attach_md(p);
}

void Traffic::unlink_me(unsigned p) {
  const ptl_handle_me_t me = some_me(p);
  const int rc = PtlMEUnlink(me);
  world_.drain(p);  // it made progress before it answered
  say("%u PtlMEUnlink: %s", p, text_of(rc));
  if (!world_.failed()) model_.me_unlink(p, me, rc);
}

// --- descriptors ----------------------------------------------------------------------------

void Traffic::attach_md(unsigned p) {
  // An entry without a descriptor, if there is one.
  ptl_handle_me_t me = some_me(p);
  for (const auto& [handle, entry] : model_.process(p).mes)
    if (!entry->md && !one_in(4)) me = handle;
  ptl_md_t user = md(p, true);
  spoil(&user);
  ptl_handle_md_t handle = PTL_INVALID_HANDLE;
  const ptl_unlink_t unlink = one_in(2) ? PTL_UNLINK : PTL_RETAIN;
  const int rc = PtlMDAttach(me, user, unlink, &handle);
  say("%u PtlMDAttach %llx threshold %d options 0x%x: %s", p,
      static_cast<unsigned long long>(handle), user.threshold, user.options, text_of(rc));
  model_.md_attach(p, me, user, unlink, rc, handle);
}

void Traffic::bind(unsigned p) {
  ptl_md_t user = md(p, false);
  spoil(&user);
  ptl_handle_md_t handle = PTL_INVALID_HANDLE;
  const ptl_unlink_t unlink = one_in(2) ? PTL_UNLINK : PTL_RETAIN;
  const int rc = PtlMDBind(world_.node(p).handle, user, unlink, &handle);
  say("%u PtlMDBind %llx threshold %d options 0x%x: %s", p, static_cast<unsigned long long>(handle),
      user.threshold, user.options, text_of(rc));
  model_.md_bind(p, user, unlink, rc, handle);
}

void Traffic::unlink_md(unsigned p) {
  const auto md = some_md(p, one_in(2));
  const ptl_handle_md_t handle = md ? md->handle : PTL_INVALID_HANDLE;
  const int rc = PtlMDUnlink(handle);
  world_.drain(p);
  say("%u PtlMDUnlink %llx: %s", p, static_cast<unsigned long long>(handle), text_of(rc));
  if (!world_.failed()) model_.md_unlink(p, handle, rc);
}

// New values for a descriptor. While operations are under way it keeps its queue and stays as
// visible as it was, so that the model can tell the order of things.
void Traffic::update(unsigned p) {
  const auto old = some_md(p, one_in(4));
  if (!old || model_.has_replies(p, *old)) return;
  Node& node = world_.node(p);
  ptl_md_t user = md(p, old->me != nullptr);
  if (old->busy > 0 || model_.has_acks(*old)) user.eq_handle = old->user.eq_handle;
  spoil(&user);
  ptl_handle_eq_t test = one_in(2) ? PTL_EQ_NONE : node.queues[below(Node::kQueues)];
  bool events = false;
  if (test != PTL_EQ_NONE && one_in(2)) {
    (void)node.progress();  // may leave events in the queue
    events = world_.has_events(test);
    // The history of the descriptor itself must be known.
    const bool known = !model_.has_acks(*old) && !(old->due && old->busy > 0);
    if (!events || !known) world_.drain(p);
    if (world_.failed() || old->gone || !model_.certain(p, *old)) return;
    if (events && !known) test = PTL_EQ_NONE;
    events &= known;
  }
  const ptl_handle_md_t handle = old->handle;
  const Model::Quiet quiet = model_.quiet(p, test, handle, events);
  const int rc = PtlMDUpdate(handle, nullptr, &user, test);
  say("%u PtlMDUpdate %llx threshold %d options 0x%x%s: %s", p,
      static_cast<unsigned long long>(handle), user.threshold, user.options,
      test == PTL_EQ_NONE ? "" : " if quiet", text_of(rc));
  model_.md_update(p, handle, user, quiet, rc);
}

void Traffic::post(unsigned p) {
  Node& node = world_.node(p);
  const ptl_handle_me_t base = some_me(p);
  const Criterion c = criterion();
  const ptl_ins_pos_t position = one_in(2) ? PTL_INS_BEFORE : PTL_INS_AFTER;
  ptl_md_t user = md(p, true);
  spoil(&user);
  const ptl_unlink_t unlink = one_in(2) ? PTL_UNLINK : PTL_RETAIN;
  const ptl_handle_eq_t test = one_in(2) ? PTL_EQ_NONE : node.queues[below(Node::kQueues)];
  const Model::Quiet quiet = model_.quiet(p, test, PTL_INVALID_HANDLE, false);
  ptl_handle_me_t me = PTL_INVALID_HANDLE;
  ptl_handle_md_t handle = PTL_INVALID_HANDLE;
  const int rc = PtlMEMDPost(node.handle, base, c.match_id, c.match_bits, c.ignore_bits, c.unlink,
                             position, user, unlink, &me, &handle, test);
  say("%u PtlMEMDPost %llx: %s", p, static_cast<unsigned long long>(handle), text_of(rc));
  model_.memd_post(p, base, c, position, user, unlink, quiet, rc, me, handle);
}

// --- the rest -------------------------------------------------------------------------------

void Traffic::flow_control(unsigned p) {
  const ptl_pt_index_t pt = one_in(20) ? 64 : ptl_pt_index_t(below(portals_));
  const bool on = !one_in(3);
  const int rc = PtlPTFlowControl(world_.node(p).handle, pt, on);
  say("%u PtlPTFlowControl portal %u %d: %s", p, pt, on, text_of(rc));
  model_.flow_control(p, pt, on, rc);
}

void Traffic::access(unsigned p) {
  Access a;
  const Node& other = world_.node(unsigned(below(world_.size())));
  if (one_in(4)) a.id.nid = other.id().nid;
  if (one_in(4)) a.id.pid = other.id().pid;
  if (one_in(4)) a.uid = other.protocol.self().uid;
  if (one_in(6)) a.jid = one_in(2) ? 77 : 78;
  constexpr ptl_pt_index_t kPortals[] = {0, 1, 64, PTL_PT_INDEX_NONE};
  if (one_in(4)) a.pt_index = kPortals[below(4)];
  const ptl_ac_index_t index = one_in(20) ? 64 : ptl_ac_index_t(one_in(8) ? 0 : 1 + below(2));
  const int rc = PtlACEntry(world_.node(p).handle, index, a.id, a.uid, a.jid, a.pt_index);
  say("%u PtlACEntry %u: %s", p, index, text_of(rc));
  model_.ac_entry(p, index, a, rc);
}

void Traffic::put(unsigned p) {
  const auto md = some_source(p, ~uint64_t{0});
  if (!md) return;
  const auto r = request(p, Verb::put);
  if (md->me && r->to == p) return;
  const Model::Region where = region(*md);
  const ptl_handle_md_t handle = md->handle;
  const ptl_ack_req_t ack = r->want_ack ? PTL_ACK_REQ : PTL_NO_ACK_REQ;
  const int expected = model_.put(r, handle, where, reachable(*r));
  say("%u PtlPut %u md %llx to %u portal %u bits 0x%llx, %llu bytes%s", p, r->serial,
      static_cast<unsigned long long>(handle), r->to, r->pt_index,
      static_cast<unsigned long long>(r->bits), static_cast<unsigned long long>(r->length),
      r->want_ack ? " with ack" : "");
  const int rc = where.all
                     ? PtlPut(handle, ack, target_of(*r), r->pt_index, r->ac_index, r->bits,
                              r->offset, r->hdr_data)
                     : PtlPutRegion(handle, where.local, where.length, ack, target_of(*r),
                                    r->pt_index, r->ac_index, r->bits, r->offset, r->hdr_data);
  check(rc, expected, "PtlPut");
}

void Traffic::get(unsigned p) {
  const auto md = some_source(p, ~uint64_t{0});
  if (!md || !model_.may_get(*md)) return;
  const auto r = request(p, Verb::get);
  if (md->me && r->to == p) return;
  const Model::Region where = region(*md);
  const ptl_handle_md_t handle = md->handle;
  const int expected = model_.get(r, handle, where, reachable(*r));
  say("%u PtlGet %u md %llx from %u portal %u bits 0x%llx, %llu bytes", p, r->serial,
      static_cast<unsigned long long>(handle), r->to, r->pt_index,
      static_cast<unsigned long long>(r->bits), static_cast<unsigned long long>(r->length));
  const int rc = where.all
                     ? PtlGet(handle, target_of(*r), r->pt_index, r->ac_index, r->bits, r->offset)
                     : PtlGetRegion(handle, where.local, where.length, target_of(*r), r->pt_index,
                                    r->ac_index, r->bits, r->offset);
  check(rc, expected, "PtlGet");
}

void Traffic::getput(unsigned p) {
  const auto get_md = some_source(p, ~uint64_t{0});
  const auto put_md = some_source(p, one_in(20) ? ~uint64_t{0} : 256);
  if (!get_md || !put_md || get_md->gone || !model_.may_get(*get_md)) return;
  const auto r = request(p, Verb::getput);
  const ptl_handle_md_t get_handle = get_md->handle, put_handle = put_md->handle;
  const int expected = model_.getput(r, get_handle, put_handle, reachable(*r));
  say("%u PtlGetPut %u mds %llx %llx with %u portal %u bits 0x%llx, %llu bytes", p, r->serial,
      static_cast<unsigned long long>(get_handle), static_cast<unsigned long long>(put_handle),
      r->to, r->pt_index, static_cast<unsigned long long>(r->bits),
      static_cast<unsigned long long>(r->length));
  const int rc = PtlGetPut(get_handle, put_handle, target_of(*r), r->pt_index, r->ac_index, r->bits,
                           r->offset, r->hdr_data);
  check(rc, expected, "PtlGetPut");
}

// Memory that no operation uses is the program's again: it writes there at once.
void Traffic::scribble(unsigned p) {
  const uint32_t bytes = uint32_t(random_.between(1, 2000));
  const uint32_t at = uint32_t(below(Node::kMemory - bytes));
  if (model_.touched(p, at, bytes)) return;
  std::vector<unsigned char> data(bytes);
  for (unsigned char& byte : data) byte = static_cast<unsigned char>(random_.next());
  model_.scribble(p, at, data);
}

void Traffic::fill(unsigned p) {
  const bool entries = one_in(2);
  const uint64_t count = random_.between(20, 60);
  portals_ = 1;
  if (!entries) {
    const int rc = PtlPTFlowControl(world_.node(p).handle, 0, 1);
    model_.flow_control(p, 0, true, rc);
  }
  for (uint64_t i = 0; i < count && !world_.failed(); ++i) {
    if (entries) {
      attach(p);
    } else {
      favourite_ = p;
      put(someone());
      world_.run(p, below(longest_ns_ + 1));
    }
    for (unsigned q = 0; q < world_.size(); ++q) world_.drain(q);
  }
  favourite_ = one_in(2) ? p : world_.size();
}

void Traffic::step() {
  const unsigned p = someone();
  if (one_in(patient_ ? 4 : 2)) world_.run(someone(), below(longest_ns_ + 1));
  world_.drain(p);
  if (world_.failed()) return;
  constexpr struct {
    unsigned weight;
    void (Traffic::*call)(unsigned p);
  } kCalls[] = {{10, &Traffic::attach},   {5, &Traffic::insert},  {2, &Traffic::unlink_me},
                {7, &Traffic::attach_md}, {3, &Traffic::bind},    {2, &Traffic::unlink_md},
                {6, &Traffic::update},    {4, &Traffic::post},    {1, &Traffic::flow_control},
                {1, &Traffic::access},    {30, &Traffic::put},    {12, &Traffic::get},
                {8, &Traffic::getput},    {6, &Traffic::scribble}};
  unsigned all = 0;
  for (const auto& c : kCalls) all += c.weight;
  uint64_t pick = below(all);
  for (const auto& c : kCalls) {
    if (pick < c.weight) {
      (this->*c.call)(p);
      break;
    }
    pick -= c.weight;
  }
  if (!world_.failed()) world_.drain(p);
}

}  // namespace torii::model
