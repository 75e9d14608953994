-- Concurrency limits: windows, with the same arguments and values, and the verb `renew`, which moves permits to now. Its
-- mark is their instant. Its change is `keep`.

local function load_all(key)
  local stored, text = load_text(key, 'W')
  return stored, text, floor(#text / 8)
end

local function renew(text, all, member, marks)
  local units, named, cost = read_units(text, all), tonumber(ARGV[marks + member.mark] or 0), member.cost
  local gone = count_until(units, 0, all, now - member.span)
  local until_named, until_now = count_until(units, gone, all, named), count_until(units, gone, all, now)
  local until_before, report, moved = count_until(units, gone, all, named - 1), nil, nil
  local fits = cost > 0 and until_named - until_before >= cost
  if all > SMALL_WINDOW then
    report, moved = {all - gone, until_now, until_named, until_before}, fits and cost or 0
    report_units(report, member, units, gone, all, 0, 0)
  end
  if not fits then
    return text, all, moved, report
  end
  -- The permits themselves are no longer before the place to which they move.
  local to = until_now - (named <= now and cost or 0)
  local rest, left = changed(text, gone, all, until_named - cost, now, -cost)
  local renewed, count = changed(rest, 0, left, to, now, cost)
  return renewed, count, moved, report
end

local read_window = read

local function read(at, verb)
  local member, after = read_window(at, verb)
  if verb == 'renew' then
    member.load, member.ask = load_all, renew
  end
  return member, after
end
