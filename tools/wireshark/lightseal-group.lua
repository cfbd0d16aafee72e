-- Shows secure multicast groups in Wireshark: records of both profiles, rekey messages, and the
-- messages between members and their controller. Nothing is decrypted.
--
-- Nothing is dissected until ports are set, in the preferences or on the command line:
--   tshark -X lua_script:lightseal-group.lua -o lsgroup.ports:5684 -r group.pcap
-- The formats are those of docs/spec/group.md; docs/wireshark.md says how to use this.

set_plugin_info({
    version = "0.1.0",
    author = "Lightseal",
    description = "Secure multicast groups of Lightseal",
})

local MAX_CONTENT = 16384
local UNKNOWN_SUITE = { tag = 0, nonce = 0, unknown = true }

local CONTENT_TYPES = {
    [20] = "change_cipher_spec", [21] = "alert", [22] = "handshake", [23] = "application_data",
    [24] = "heartbeat", [25] = "tls12_cid", [26] = "ack", [27] = "return_routability_check",
    [0xe8] = "group_rekey", [0xe9] = "group_sync", [0xea] = "group_challenge",
}

-- Lengths in bytes of the tag and of the explicit nonce, by the suite's code point.
local SUITES = {
    [0xc0a8] = { name = "TLS_PSK_WITH_AES_128_CCM_8", tag = 8, nonce = 8 },
    [0xc0a4] = { name = "TLS_PSK_WITH_AES_128_CCM", tag = 16, nonce = 8 },
    [0x00a8] = { name = "TLS_PSK_WITH_AES_128_GCM_SHA256", tag = 16, nonce = 8 },
    [0xccab] = { name = "TLS_PSK_WITH_CHACHA20_POLY1305_SHA256", tag = 16, nonce = 0 },
    [0x00b0] = { name = "TLS_PSK_WITH_NULL_SHA256", tag = 32, nonce = 0, clear = true },
    [0xff02] = { name = "AES-128-CTR + LightMAC, short tag", tag = 8 },
    [0xff01] = { name = "AES-128-CTR + LightMAC", tag = 16 },
    [0x1305] = { name = "TLS_AES_128_CCM_8_SHA256", tag = 8 },
    [0x1304] = { name = "TLS_AES_128_CCM_SHA256", tag = 16 },
    [0x1301] = { name = "TLS_AES_128_GCM_SHA256", tag = 16 },
    [0x1303] = { name = "TLS_CHACHA20_POLY1305_SHA256", tag = 16 },
}

-- The suite that a preference such as "0xc0a8" names.
local function suite_of(text)
    return SUITES[tonumber(text) or -1] or UNKNOWN_SUITE
end

-- Returns a function that makes `dissector` follow the ports of a preference, in those of the
-- tables that this Wireshark has.
local function follower(dissector, tables)
    local followed = {}
    return function(ports)
        for _, name in ipairs(tables) do
            local found, dissector_table = pcall(DissectorTable.get, name)
            if found and dissector_table then
                if followed[name] and followed[name] ~= "" then
                    dissector_table:remove(followed[name], dissector)
                end
                if ports ~= "" then dissector_table:add(ports, dissector) end
                followed[name] = ports
            end
        end
    end
end

-- Whether a list of ports and ranges such as "5684,7000-7010" contains the port.
local function has_port(ports, port)
    for part in string.gmatch(ports, "[^,]+") do
        local low, high = string.match(part, "^%s*(%d+)%s*%-%s*(%d+)%s*$")
        low = low or string.match(part, "^%s*(%d+)%s*$")
        high = high or low
        if low and port >= tonumber(low) and port <= tonumber(high) then return true end
    end
    return false
end

local function u64(range) return range:uint64():tonumber() end

---------------------------------------------------------------------------------------------------
-- Rekey messages (docs/spec/group.md, section 4.3).

local rekey = Proto("lsrekey", "Lightseal group rekeying")
local ABOUT_CHILD = {
    [0] = "-", [1] = "under the child's key", [2] = "under the child's new key",
    [3] = "described, without a key by way of this child",
}
local rf = {
    version = ProtoField.uint8("lsrekey.version", "Version"),
    kind = ProtoField.uint8("lsrekey.kind", "Kind", base.DEC,
        { [1] = "rekey", [2] = "pull", [3] = "grant" }),
    alias = ProtoField.uint8("lsrekey.alias", "GroupID", base.HEX),
    flags = ProtoField.uint8("lsrekey.flags", "Flags", base.HEX),
    range = ProtoField.bool("lsrekey.flags.range", "For a range of leaves", 8, nil, 1),
    next = ProtoField.bool("lsrekey.flags.next_anchor", "Next chain's anchor", 8, nil, 2),
    group = ProtoField.bytes("lsrekey.group", "Group"),
    epoch = ProtoField.uint64("lsrekey.epoch", "Epoch"),
    element = ProtoField.bytes("lsrekey.element", "Element of the hash chain"),
    activation = ProtoField.uint16("lsrekey.activation", "Activation, in tenths of a second"),
    retention = ProtoField.uint8("lsrekey.retention", "Retention, in seconds"),
    depth = ProtoField.uint8("lsrekey.depth", "Depth of the tree"),
    first = ProtoField.uint24("lsrekey.first", "First leaf"),
    last = ProtoField.uint24("lsrekey.last", "Last leaf"),
    anchor = ProtoField.bytes("lsrekey.next_anchor", "Next anchor"),
    shape = ProtoField.bytes("lsrekey.shape", "Shape"),
    node = ProtoField.string("lsrekey.node", "Node"),
    wrap = ProtoField.bytes("lsrekey.wrap", "Wrapped key"),
    signature = ProtoField.bytes("lsrekey.signature", "Signature"),
    leaf = ProtoField.uint24("lsrekey.leaf", "Leaf"),
    key = ProtoField.bytes("lsrekey.key", "Key"),
}
rekey.fields = rf
local re = {
    malformed = ProtoExpert.new("lsrekey.malformed", "Malformed rekey message",
        expert.group.MALFORMED, expert.severity.ERROR),
}
rekey.experts = re

-- Returns the described nodes of a shape in preorder, each with its level, its index, and the codes
-- of its left and right child, and the length of the shape. On an error returns nil and the reason.
local function read_shape(range, depth)
    local nodes, waiting, at = {}, { { depth, 0 } }, 0
    while #waiting > 0 do
        local place = table.remove(waiting)
        if math.floor(at / 2) >= range:len() then return nil, "the shape is cut" end
        local left = range:bitfield(4 * at, 2)
        local right = range:bitfield(4 * at + 2, 2)
        at = at + 1
        local level, index = place[1], place[2]
        if (level == 1 and (left > 1 or right > 1)) or
            ((left == 3 or right == 3) and (left == 1 or left == 2 or right == 1 or right == 2))
        then
            return nil, "the shape contradicts itself"
        end
        nodes[#nodes + 1] = { level = level, index = index, left = left, right = right }
        if right > 1 then waiting[#waiting + 1] = { level - 1, 2 * index + 1 } end
        if left > 1 then waiting[#waiting + 1] = { level - 1, 2 * index } end
    end
    if at % 2 == 1 and range:bitfield(4 * at, 4) ~= 0 then return nil, "the last nibble is not 0" end
    return nodes, math.ceil(at / 2)
end

local function wraps_of(node)
    local told = {}
    if node.left == 1 or node.left == 2 then told[#told + 1] = "left: " .. ABOUT_CHILD[node.left] end
    if node.right == 1 or node.right == 2 then
        told[#told + 1] = "right: " .. ABOUT_CHILD[node.right]
    end
    if #told == 0 then told[1] = "under its own old key" end
    return told
end

local function rekey_message(tvb, tree)
    local len = tvb:len()
    local function wrong(what) tree:add_proto_expert_info(re.malformed, what) end
    if len < 32 + 64 then return wrong("too short for a rekey message") end
    tree:add(rf.version, tvb(0, 1))
    tree:add(rf.kind, tvb(1, 1))
    tree:add(rf.alias, tvb(2, 1))
    local flags = tvb(3, 1):uint()
    local sub = tree:add(rf.flags, tvb(3, 1))
    sub:add(rf.range, tvb(3, 1))
    sub:add(rf.next, tvb(3, 1))
    tree:add(rf.epoch, tvb(4, 8))
    tree:add(rf.element, tvb(12, 16))
    tree:add(rf.activation, tvb(28, 2))
    tree:add(rf.retention, tvb(30, 1))
    tree:add(rf.depth, tvb(31, 1))
    if tvb(0, 1):uint() ~= 1 or tvb(1, 1):uint() ~= 1 or flags > 3 then
        return wrong("unknown version, kind or flags")
    end
    local depth = tvb(31, 1):uint()
    if depth < 1 or depth > 24 or tvb(30, 1):uint() > 60 then
        return wrong("depth or retention is out of range")
    end
    local at, last = 32, len - 64
    if flags % 2 == 1 then
        if at + 6 > last then return wrong("cut in its range of leaves") end
        tree:add(rf.first, tvb(at, 3))
        tree:add(rf.last, tvb(at + 3, 3))
        local from, to = tvb(at, 3):uint(), tvb(at + 3, 3):uint()
        if from > to or to >= 2 ^ depth then wrong("not a range of leaves") end
        at = at + 6
    end
    if flags >= 2 then
        if at + 16 > last then return wrong("cut in its next anchor") end
        tree:add(rf.anchor, tvb(at, 16))
        at = at + 16
    end
    if at >= last then return wrong("there is no shape") end
    local nodes, shape_len = read_shape(tvb(at, last - at), depth)
    if not nodes then return wrong(shape_len) end
    local shape = tree:add(rf.shape, tvb(at, shape_len))
    at = at + shape_len
    for _, node in ipairs(nodes) do
        local name = string.format("(%d, %d)", node.level, node.index)
        shape:add(rf.node, name):set_generated()
        for _, told in ipairs(wraps_of(node)) do
            if at + 24 > last then return wrong("fewer wrapped keys than its shape says") end
            tree:add(rf.wrap, tvb(at, 24)):append_text(" of node " .. name .. ", " .. told)
            at = at + 24
        end
    end
    if at < last then wrong("more than its shape says") end
    tree:add(rf.signature, tvb(last, 64))
end

-- A pull and its answer, a grant (section 4.6).
local function pull(tvb, tree)
    if tvb:len() ~= 26 then return tree:add_proto_expert_info(re.malformed, "not a pull") end
    tree:add(rf.version, tvb(0, 1))
    tree:add(rf.kind, tvb(1, 1))
    tree:add(rf.group, tvb(2, 16))
    tree:add(rf.epoch, tvb(18, 8))
end

local function grant(tvb, tree)
    local len = tvb:len()
    if len < 49 or len ~= 49 + 16 * (tvb(32, 1):uint() + 1) then
        return tree:add_proto_expert_info(re.malformed, "not a grant")
    end
    tree:add(rf.version, tvb(0, 1))
    tree:add(rf.kind, tvb(1, 1))
    tree:add(rf.group, tvb(2, 16))
    tree:add(rf.epoch, tvb(18, 8))
    tree:add(rf.activation, tvb(26, 2))
    tree:add(rf.retention, tvb(28, 1))
    tree:add(rf.leaf, tvb(29, 3))
    tree:add(rf.depth, tvb(32, 1))
    tree:add(rf.anchor, tvb(33, 16))
    for at = 49, len - 16, 16 do
        tree:add(rf.key, tvb(at, 16)):append_text(string.format(" at level %d", (at - 49) / 16))
    end
end

function rekey.dissector(tvb, pinfo, tree)
    pinfo.cols.protocol = "LSREKEY"
    rekey_message(tvb, tree:add(rekey, tvb()))
    return tvb:len()
end

---------------------------------------------------------------------------------------------------
-- Control messages between members and their controller (section 4.8). They are protected by DTLS.
-- Wireshark shows them if it decrypts that, or in captures written by `lightseal lab decrypt
-- --out`.

local control = Proto("lscontrol", "Lightseal group control")
control.prefs.ports = Pref.range("Ports", "", "The controllers' ports, of UDP in clear or of DTLS", 65535)
local REQUESTS = { "join", "leave", "pull", "renew", "senders", "conflict", "lookup" }
local ANSWERS = { "admitted", "noted", "granted", "senders", "refused", "page" }
local REASONS = {
    [0] = "no such group", [1] = "not a member", [2] = "full", [3] = "address taken", [4] = "roles",
    [5] = "not now",
}
local ROLES = { "sender", "listener", "sender and listener" }
local cf = {
    version = ProtoField.uint8("lscontrol.version", "Version"),
    request = ProtoField.uint8("lscontrol.request", "Request", base.DEC, REQUESTS),
    answer = ProtoField.uint8("lscontrol.answer", "Answer", base.DEC, ANSWERS),
    number = ProtoField.uint32("lscontrol.number", "Number"),
    nonce = ProtoField.bytes("lscontrol.nonce", "Nonce"),
    name = ProtoField.string("lscontrol.name", "Name of the group"),
    roles = ProtoField.uint8("lscontrol.roles", "Roles", base.DEC, ROLES),
    ipv4 = ProtoField.ipv4("lscontrol.ipv4", "Address"),
    ipv6 = ProtoField.ipv6("lscontrol.ipv6", "Address"),
    group = ProtoField.bytes("lscontrol.group", "Group"),
    epoch = ProtoField.uint64("lscontrol.epoch", "Epoch"),
    sender = ProtoField.uint8("lscontrol.sender_id", "SenderID"),
    port = ProtoField.uint16("lscontrol.port", "Port"),
    profile = ProtoField.uint8("lscontrol.profile", "Profile", base.DEC,
        { [1] = "axiom-1.2", [2] = "compact" }),
    suite = ProtoField.uint16("lscontrol.suite", "Cipher suite", base.HEX),
    authenticity = ProtoField.uint8("lscontrol.authenticity", "Authenticity", base.DEC,
        { [0] = "group", [1] = "source" }),
    responses = ProtoField.uint8("lscontrol.responses", "Responses", base.DEC,
        { [0] = "group", [1] = "pairwise" }),
    freshness = ProtoField.uint8("lscontrol.freshness", "Freshness", base.DEC,
        { [0] = "new epoch", [1] = "challenge", [2] = "first dropped" }),
    randoms = ProtoField.bytes("lscontrol.randoms", "Client and server random"),
    key = ProtoField.bytes("lscontrol.controller_key", "Controller's key"),
    senders = ProtoField.bytes("lscontrol.senders", "Senders"),
    reason = ProtoField.uint8("lscontrol.reason", "Reason", base.DEC, REASONS),
    keys = ProtoField.bytes("lscontrol.public_keys", "Public keys"),
    looked_up = ProtoField.uint8("lscontrol.lookup", "Lookup of", base.DEC,
        { [1] = "senders", [2] = "listeners" }),
    first = ProtoField.uint24("lscontrol.first", "First ID"),
    count = ProtoField.uint8("lscontrol.count", "Members"),
    leaf = ProtoField.uint24("lscontrol.leaf", "Leaf"),
    body = ProtoField.bytes("lscontrol.body", "Body"),
}
control.fields = cf
local ce = {
    malformed = ProtoExpert.new("lscontrol.malformed", "Malformed control message",
        expert.group.MALFORMED, expert.severity.ERROR),
}
control.experts = ce

-- A reader that adds one field after the other, and remembers whether bytes were missing.
local function reader(tvb, tree, at)
    local r = { tvb = tvb, tree = tree, at = at, ok = true }
    function r.take(len)
        if not r.ok or r.at + len > tvb:len() then
            r.ok = false
            return nil
        end
        r.at = r.at + len
        return tvb(r.at - len, len)
    end
    function r.add(field, len)
        local range = r.take(len)
        if range then tree:add(field, range) end
        return range
    end
    function r.address()
        local len = r.take(1)
        len = len and len:uint()
        if len == 4 then return r.add(cf.ipv4, 4) end
        if len == 16 then return r.add(cf.ipv6, 16) end
        r.ok = false
    end
    function r.rest() return r.take(tvb:len() - r.at) end
    return r
end

local function add_senders(r)
    local range = r.take(32)
    if not range then return end
    local ids = {}
    for id = 0, 255 do
        if range:bitfield(id, 1) == 1 then ids[#ids + 1] = id end
    end
    r.tree:add(cf.senders, range):append_text(" (" .. table.concat(ids, ", ") .. ")")
end

-- The body of a lookup (section 4.9).
local function add_lookup(r)
    r.add(cf.looked_up, 1)
    r.add(cf.first, 3)
end

local function sub_message(r, dissect)
    local at = r.at
    if r.ok and at < r.tvb:len() then
        r.rest()
        dissect(r.tvb(at):tvb(), r.tree:add(rekey, r.tvb(at)))
    else
        r.ok = false
    end
end

local REQUEST_BODIES = {
    [1] = function(r)
        r.add(cf.nonce, 8)
        local len = r.take(1)
        if len then r.add(cf.name, len:uint()) end
        r.add(cf.roles, 1)
        r.address()
        r.add(cf.keys, 64)
    end,
    [2] = function(r) r.add(cf.group, 16) end,
    [3] = function(r) sub_message(r, pull) end,
    [4] = function(r) r.add(cf.group, 16) r.add(cf.epoch, 8) end,
    [5] = function(r) r.add(cf.group, 16) end,
    [6] = function(r) r.add(cf.group, 16) r.add(cf.sender, 1) end,
    [7] = function(r) r.add(cf.group, 16) add_lookup(r) end,
}
local ANSWER_BODIES = {
    [1] = function(r)
        r.add(cf.group, 16)
        r.address()
        r.add(cf.port, 2)
        r.add(cf.profile, 1)
        r.add(cf.suite, 2)
        r.add(cf.authenticity, 1)
        r.add(cf.responses, 1)
        r.add(cf.freshness, 1)
        r.add(cf.randoms, 64)
        r.add(cf.roles, 1)
        r.add(cf.sender, 1)
        r.add(cf.key, 32)
        add_senders(r)
        sub_message(r, grant)
    end,
    [2] = function() end,
    [3] = function(r) sub_message(r, grant) end,
    [4] = add_senders,
    [5] = function(r) r.add(cf.reason, 1) end,
    [6] = function(r)
        add_lookup(r)
        r.add(cf.epoch, 8)
        local count = r.add(cf.count, 1)
        for _ = 1, count and count:uint() or 0 do
            r.add(cf.sender, 1)
            r.add(cf.leaf, 3)
            r.add(cf.keys, 64)
        end
    end,
}

function control.dissector(tvb, pinfo, tree)
    local top = tree:add(control, tvb())
    pinfo.cols.protocol = "LSCONTROL"
    if tvb:len() < 6 then
        top:add_proto_expert_info(ce.malformed, "too short for a control message")
        return tvb:len()
    end
    local asks = has_port(control.prefs.ports, pinfo.dst_port)
    local kind = tvb(1, 1):uint()
    top:add(cf.version, tvb(0, 1))
    top:add(asks and cf.request or cf.answer, tvb(1, 1))
    top:add(cf.number, tvb(2, 4))
    local name = (asks and REQUESTS or ANSWERS)[kind]
    pinfo.cols.info = (asks and "Request: " or "Answer: ") .. (name or "unknown")
    local body = (asks and REQUEST_BODIES or ANSWER_BODIES)[kind]
    if tvb(0, 1):uint() ~= 1 or not body then
        top:add_proto_expert_info(ce.malformed, "unknown version or kind")
        if tvb:len() > 6 then top:add(cf.body, tvb(6)) end
        return tvb:len()
    end
    local r = reader(tvb, top, 6)
    body(r)
    if not r.ok then
        top:add_proto_expert_info(ce.malformed, "cut")
    elseif r.at < tvb:len() then
        top:add_proto_expert_info(ce.malformed, "more than the message")
    end
    return tvb:len()
end
local follow_control = follower(control, { "udp.port", "dtls.port" })
function control.prefs_changed() follow_control(control.prefs.ports) end

---------------------------------------------------------------------------------------------------
-- Records of groups (sections 2.4, 3.3 and 3.5).

local group = Proto("lsgroup", "Lightseal group record")
group.prefs.ports = Pref.range("Ports", "", "The groups' UDP ports", 65535)
group.prefs.addresses = Pref.string("Addresses", "",
    "The groups' addresses, separated by commas; empty for any multicast address")
group.prefs.axiom_suite = Pref.string("Suite of axiom-1.2", "0xc0a8", "Determines the lengths of nonces and tags")
group.prefs.compact_suite = Pref.string("Suite of compact", "0xff02", "Determines the length of tags")
group.prefs.heuristic = Pref.bool("Find records of axiom-1.2 on other ports", false,
    "Recognise them by their header and explicit nonce")
local WRITERS = {
    [0] = "request, under the request secret", [1] = "answer, under the answer secret",
    [2] = "response, under the response secret", [3] = "response, under the secret of its boot",
}
local gf = {
    profile = ProtoField.string("lsgroup.profile", "Profile"),
    direction = ProtoField.string("lsgroup.direction", "Direction"),
    form = ProtoField.string("lsgroup.form", "Form"),
    type = ProtoField.uint8("lsgroup.type", "Content type", base.DEC, CONTENT_TYPES),
    version = ProtoField.uint16("lsgroup.version", "Version", base.HEX),
    flags = ProtoField.uint8("lsgroup.flags", "Flags", base.HEX),
    cid = ProtoField.bool("lsgroup.flags.connection_id", "Connection ID", 8, nil, 0x10),
    long = ProtoField.bool("lsgroup.flags.long_number", "16-bit number", 8, nil, 0x08),
    has_length = ProtoField.bool("lsgroup.flags.length", "Length", 8, nil, 0x04),
    epoch_bits = ProtoField.uint8("lsgroup.epoch_bits", "Epoch, low bits", base.DEC, nil, 0x03),
    signed = ProtoField.bool("lsgroup.signed", "Signed", 8, nil, 0x04),
    writer = ProtoField.uint8("lsgroup.kind", "Kind", base.DEC, WRITERS, 0x03),
    epoch = ProtoField.uint64("lsgroup.epoch", "Epoch"),
    group = ProtoField.uint8("lsgroup.group_id", "GroupID", base.HEX),
    sender = ProtoField.uint8("lsgroup.sender_id", "SenderID"),
    listener = ProtoField.uint24("lsgroup.listener_id", "ListenerID"),
    number = ProtoField.uint64("lsgroup.number", "Number"),
    masked = ProtoField.uint16("lsgroup.number_encrypted", "Number, low bits, encrypted", base.HEX),
    request = ProtoField.uint64("lsgroup.request_number", "Number of the request"),
    boot = ProtoField.bytes("lsgroup.boot_nonce", "Boot nonce"),
    length = ProtoField.uint16("lsgroup.length", "Length"),
    nonce = ProtoField.bytes("lsgroup.explicit_nonce", "Explicit nonce"),
    content = ProtoField.bytes("lsgroup.content", "Content"),
    sealed = ProtoField.bytes("lsgroup.encrypted", "Encrypted"),
    tag = ProtoField.bytes("lsgroup.tag", "Tag"),
    rest = ProtoField.bytes("lsgroup.undissected", "Not dissected"),
}
group.fields = gf
local ge = {
    malformed = ProtoExpert.new("lsgroup.malformed", "Malformed record",
        expert.group.MALFORMED, expert.severity.ERROR),
    nonce = ProtoExpert.new("lsgroup.nonce_mismatch",
        "The explicit nonce is not epoch, ID and number: receivers drop this record",
        expert.group.PROTOCOL, expert.severity.WARN),
    suite = ProtoExpert.new("lsgroup.unknown_suite", "The preference names no cipher suite",
        expert.group.UNDECODED, expert.severity.NOTE),
    place = ProtoExpert.new("lsgroup.misplaced", "A listener's record to a group's address",
        expert.group.PROTOCOL, expert.severity.WARN),
}
group.experts = ge

-- The group's addresses. If there are none, any multicast address is one.
local addresses = {}
local ipv4_destination, ipv6_destination = Field.new("ip.dst"), Field.new("ipv6.dst")

-- Whether the packet goes to a multicast address. Its raw bytes are read, since the text may be a
-- name.
local function is_multicast(pinfo)
    local found = false
    for _, destinations in ipairs({ { ipv4_destination() }, { ipv6_destination() } }) do
        for _, info in ipairs(destinations) do
            if info.value == pinfo.net_dst then
                local first = info.range(0, 1):uint()
                found = (info.len == 4 and first >= 224 and first <= 239) or
                    (info.len == 16 and first == 255)
            end
        end
    end
    return found
end

-- The kind of destination: "group", "unicast", or nil for another group's address.
local function destination(pinfo)
    if not is_multicast(pinfo) then return "unicast" end
    for _, address in ipairs(addresses) do
        if address == pinfo.net_dst then return "group" end
    end
    return #addresses == 0 and "group" or nil
end

-- Dissects the part after the header by the suite. `minimum` is the length of the shortest
-- plaintext.
local function body(tvb, tree, at, len, suite, minimum, signed, kind)
    if suite.unknown then tree:add_proto_expert_info(ge.suite) end
    local shortest = suite.tag + minimum + (signed and 64 or 0)
    if len < shortest or len > suite.tag + MAX_CONTENT + minimum then
        if len > 0 then tree:add(gf.sealed, tvb(at, len)) end
        tree:add_proto_expert_info(ge.malformed, "shorter or longer than the suite's records")
        return
    end
    local inside = len - suite.tag
    if inside > 0 and suite.clear then
        tree:add(gf.content, tvb(at, inside))
        if kind == 0xe8 then
            rekey_message(tvb(at, inside):tvb(), tree:add(rekey, tvb(at, inside)))
        end
    elseif inside > 0 then
        tree:add(gf.sealed, tvb(at, inside))
    end
    if suite.tag > 0 then tree:add(gf.tag, tvb(at + inside, suite.tag)) end
end

-- The next three functions dissect the record at `at`. They return the position of the next record,
-- or nil if it cannot be known, and a line that describes the record.
local function axiom_record(tvb, tree, at, to)
    local left = tvb:len() - at
    tree:add(gf.profile, "axiom-1.2"):set_generated()
    tree:add(gf.direction, to == "group" and "request" or "response"):set_generated()
    if left < 13 then
        tree:add_proto_expert_info(ge.malformed, "cut in its header")
        return nil, "malformed"
    end
    local suite = suite_of(group.prefs.axiom_suite)
    local kind, len = tvb(at, 1):uint(), tvb(at + 11, 2):uint()
    tree:add(gf.type, tvb(at, 1))
    tree:add(gf.version, tvb(at + 1, 2))
    tree:add(gf.epoch, tvb(at + 3, 2))
    tree:add(to == "group" and gf.sender or gf.group, tvb(at + 5, 1))
    tree:add(gf.number, tvb(at + 6, 5))
    tree:add(gf.length, tvb(at + 11, 2))
    local line = string.format("%s %d, %s, epoch %d, number %.0f",
        to == "group" and "request of sender" or "response in group", tvb(at + 5, 1):uint(),
        CONTENT_TYPES[kind] or kind, tvb(at + 3, 2):uint(), u64(tvb(at + 6, 5)))
    if len > left - 13 then
        tree:add_proto_expert_info(ge.malformed, "longer than its datagram")
        return nil, line
    end
    local nonce = suite.nonce or 0
    if len < nonce then
        tree:add_proto_expert_info(ge.malformed, "too short for its explicit nonce")
    else
        if nonce > 0 then
            local item = tree:add(gf.nonce, tvb(at + 13, nonce))
            if tvb(at + 13, nonce):bytes() ~= tvb(at + 3, 8):bytes() then
                item:add_proto_expert_info(ge.nonce)
            end
        end
        body(tvb, tree, at + 13 + nonce, len - nonce, suite, 0, false, kind)
    end
    return at + 13 + len, line
end

local function unified_record(tvb, tree, at, to)
    local left = tvb:len() - at
    local cid = to == "group" and 2 or 4
    tree:add(gf.profile, "compact"):set_generated()
    tree:add(gf.direction, to == "group" and "request" or "response"):set_generated()
    tree:add(gf.form, "number in part"):set_generated()
    local flags = tree:add(gf.flags, tvb(at, 1))
    for _, field in ipairs({ gf.cid, gf.long, gf.has_length, gf.epoch_bits }) do
        flags:add(field, tvb(at, 1))
    end
    if tvb(at, 1):bitfield(3, 2) ~= 3 then
        tree:add_proto_expert_info(ge.malformed, "without a connection ID or a 16-bit number")
        return nil, "malformed"
    end
    local has_length = tvb(at, 1):bitfield(5, 1) == 1
    local header = 1 + cid + 2 + (has_length and 2 or 0)
    if left < header then
        tree:add_proto_expert_info(ge.malformed, "cut in its header")
        return nil, "malformed"
    end
    tree:add(gf.group, tvb(at + 1, 1))
    tree:add(to == "group" and gf.sender or gf.listener, tvb(at + 2, cid - 1))
    tree:add(gf.masked, tvb(at + 1 + cid, 2))
    local who = to == "group" and "request of sender" or "response of listener"
    local line = string.format("%s %d, epoch …%d", who, tvb(at + 2, cid - 1):uint(),
        tvb(at, 1):bitfield(6, 2))
    local len = left - header
    if has_length then
        tree:add(gf.length, tvb(at + header - 2, 2))
        if tvb(at + header - 2, 2):uint() > len then
            tree:add_proto_expert_info(ge.malformed, "longer than its datagram")
            return nil, line
        end
        len = tvb(at + header - 2, 2):uint()
    end
    body(tvb, tree, at + header, len, suite_of(group.prefs.compact_suite), 1)
    return at + header + len, line
end

local function full_record(tvb, tree, at, to)
    local left = tvb:len() - at
    local kind = tvb(at, 1):bitfield(6, 2)
    local signed = tvb(at, 1):bitfield(5, 1) == 1
    local by_sender = kind < 2
    local direct = kind == 1 and signed
    local cid = direct and 5 or by_sender and 2 or 4
    local header = 1 + cid + 14 + (kind == 3 and 14 or 0)
    tree:add(gf.profile, "compact"):set_generated()
    tree:add(gf.direction, by_sender and "request" or "response"):set_generated()
    tree:add(gf.form, kind == 3 and "number in full, boot" or direct and "number in full, to one listener"
        or "number in full"):set_generated()
    local flags = tree:add(gf.flags, tvb(at, 1))
    flags:add(gf.signed, tvb(at, 1))
    flags:add(gf.writer, tvb(at, 1))
    if left < header then
        tree:add_proto_expert_info(ge.malformed, "cut in its header")
        return nil, "malformed"
    end
    if to == "group" and not by_sender then tree:add_proto_expert_info(ge.place) end
    tree:add(gf.group, tvb(at + 1, 1))
    local id = by_sender and 1 or 3
    tree:add(by_sender and gf.sender or gf.listener, tvb(at + 2, id))
    if direct then tree:add(gf.listener, tvb(at + 3, 3)) end
    tree:add(gf.epoch, tvb(at + 1 + cid, 8))
    tree:add(gf.number, tvb(at + 9 + cid, 6))
    if kind == 3 then
        tree:add(gf.request, tvb(at + 15 + cid, 6))
        tree:add(gf.boot, tvb(at + 21 + cid, 8))
    end
    local who = by_sender and "of sender" or "of listener"
    local what = direct and string.format("request to listener %d", tvb(at + 3, 3):uint())
        or kind == 1 and "answer" or by_sender and "request" or "response"
    local line = string.format("%s %s %d, number %.0f", what, who, tvb(at + 2, id):uint(),
        u64(tvb(at + 9 + cid, 6)))
    body(tvb, tree, at + header, left - header, suite_of(group.prefs.compact_suite), 1, signed and not direct)
    return at + left, line
end

local function dissect_group(tvb, pinfo, tree)
    local to = destination(pinfo)
    if not to or tvb:len() == 0 then return 0 end
    pinfo.cols.protocol = "LSGROUP"
    local at, lines = 0, {}
    while at and at < tvb:len() do
        local record = tree:add(group, tvb(at))
        local first = tvb(at, 1)
        local behind, line
        if first:bitfield(0, 3) == 1 then
            behind, line = unified_record(tvb, record, at, to)
        elseif first:bitfield(0, 5) == 31 then
            behind, line = full_record(tvb, record, at, to)
        elseif tvb:len() - at < 3 or tvb(at + 1, 2):uint() == 0xfefd then
            behind, line = axiom_record(tvb, record, at, to)
        else
            record:add(gf.rest, tvb(at))
            record:add_proto_expert_info(ge.malformed, "not a record of either profile")
            line = "malformed"
        end
        if behind then record:set_len(behind - at) end
        lines[#lines + 1] = line
        at = behind
    end
    pinfo.cols.info = table.concat(lines, "; ", 1, math.min(#lines, 8))
    return tvb:len()
end
group.dissector = dissect_group

-- Records of axiom-1.2 can be recognised by their explicit nonce, which repeats a part of the
-- header.
local function looks_like_axiom(tvb)
    local nonce = suite_of(group.prefs.axiom_suite).nonce or 0
    return nonce == 8 and tvb:len() >= 21 and tvb(1, 2):uint() == 0xfefd and
        tvb(11, 2):uint() >= 16 and tvb(13, 8):bytes() == tvb(3, 8):bytes() and
        (tvb(0, 1):uint() == 23 or tvb(0, 1):uint() == 20 or tvb(0, 1):uint() == 0xe8)
end
group:register_heuristic("udp", function(tvb, pinfo, tree)
    if not group.prefs.heuristic or not looks_like_axiom(tvb) then return false end
    return destination(pinfo) == "group" and dissect_group(tvb, pinfo, tree) > 0
end)

local follow_group = follower(group, { "udp.port" })
function group.prefs_changed()
    follow_group(group.prefs.ports)
    addresses = {}
    for text in string.gmatch(group.prefs.addresses, "[^,%s]+") do
        local read = string.find(text, ":", 1, true) and Address.ipv6 or Address.ip
        local known, address = pcall(read, text)
        if known then addresses[#addresses + 1] = address end
    end
end

for _, proto in ipairs({ group, control, rekey }) do
    DissectorTable.get("udp.port"):add_for_decode_as(proto)
end
