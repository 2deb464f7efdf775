# The operations of a Ruby program with Dalli, on a port and on a Unix socket of the server.
require 'dalli'
require 'securerandom'

$stdout.sync = true
Dalli.logger.level = Logger::FATAL

def check(name)
  holds = begin
    yield
  rescue StandardError => e
    why = " (#{e.class}: #{e.message})"
    false
  end
  puts "#{holds ? 'ok' : 'not ok'} - #{$context}: #{name}#{why}"
end

def raises(error)
  yield
  false
rescue error
  true
end

def values(cache)
  { 'nil' => nil, 'number' => 1 << 70, 'bytes' => "\0\r\nEND\r\n\xff".b, 'hash' => { a: [1, 2.5, nil] },
    'empty' => '', 'unicode' => "\u00e9t\u00e9", 'compressed' => 'larder ' * 30_000 }.each do |name, value|
    check("value #{name}") { cache.set("value:#{name}", value) && cache.get("value:#{name}") == value }
  end
  [1, 1023, 1024, 16_384, 65_536, 1_000_000].each do |size|
    value = SecureRandom.bytes(size)
    check("value of #{size} bytes") { cache.set('sized', value, nil, raw: true) && cache.get('sized', raw: true) == value }
  end
  check('too large') { raises(Dalli::ValueOverMaxSize) { cache.set('sized', SecureRandom.bytes(2_000_000)) } }
  check('key of 250 bytes') { cache.set('k' * 250, 'v') && cache.get('k' * 250) == 'v' }
  check('fetch') { cache.fetch('fetched') { 'made' } == 'made' && cache.fetch('fetched') { 'again' } == 'made' }
end

def conditions(cache)
  cache.delete('c')
  # Its return value does not show the outcome then.
  check('replace of nothing') { cache.replace('c', 'a') && cache.get('c').nil? }
  check('add') { cache.add('c', 'a') && !cache.add('c', 'b') && cache.get('c') == 'a' }
  check('replace') { cache.replace('c', 'b') && cache.get('c') == 'b' }
  check('cas') { cache.cas('c') { |value| "#{value}!" } && cache.get('c') == 'b!' }
  check('cas of nothing') { cache.cas('nothing') { 'x' }.nil? }
  check('cas that lost') { cache.cas('c') { cache.set('c', 'other') && 'mine' } == false && cache.get('c') == 'other' }
  cache.set('raw', 'b', nil, raw: true)
  check('append') { cache.append('raw', 'c') && cache.get('raw', raw: true) == 'bc' }
  check('prepend') { cache.prepend('raw', 'a') && cache.get('raw', raw: true) == 'abc' }
  check('append to nothing') { !cache.append('nothing', 'x') }
  check('delete') { cache.delete('c') && cache.get('c').nil? && !cache.delete('c') }
end

def numbers(cache)
  cache.delete('n')
  check('incr of nothing') { cache.incr('n').nil? }
  check('incr from a start') { cache.incr('n', 1, nil, 10) == 10 && cache.incr('n', 5) == 15 }
  check('decr') { cache.decr('n', 20).zero? }
  check('incr wraps') { cache.set('n', ((1 << 64) - 1).to_s, nil, raw: true) && cache.incr('n').zero? }
end

def many(cache)
  keys = Array.new(500) { |i| "many:#{i}" }
  check('multi') { cache.multi { keys.each { |key| cache.set(key, key) } } || true }
  check('get_multi') { cache.get_multi(*keys, 'nothing') == keys.to_h { |key| [key, key] } }
  check('quiet deletes') { cache.multi { keys.first(100).each { |key| cache.delete(key) } } || true }
  check('get_multi of the rest') { cache.get_multi(*keys).size == 400 }
end

def times(cache)
  cache.set('short', 'v', 1)
  cache.set('touched', 'v', 1)
  cache.set('got', 'v', 1)
  check('touch') { cache.touch('touched', 100) && !cache.touch('nothing', 100) }
  check('get and touch') { cache.gat('got', 100) == 'v' && cache.gat('nothing', 100).nil? }
  sleep 2.1
  check('expired') { cache.get('short').nil? }
  check('not expired') { cache.get('touched') == 'v' && cache.get('got') == 'v' }
end

def server(cache)
  check('version') { cache.version.values.first.match?(/\A\d+\.\d+\.\d+\z/) }
  check('stats') { cache.stats.values.first['curr_items'].to_i.positive? }
  check('stats settings') { cache.stats(:settings).values.first['maxbytes'].to_i.positive? }
  check('stats items') { cache.stats(:items).values.first.keys.grep(/\Aitems:/).any? }
  check('reset_stats') { cache.reset_stats == [true] && cache.stats.values.first['cmd_set'] == '0' }
  check('flush') { cache.flush && cache.get('n').nil? }
end

ARGV.each do |address|
  $context = address.start_with?('/') ? 'unix' : 'tcp'
  cache = Dalli::Client.new(address, value_max_bytes: 1_048_576, compress: true)
  [method(:values), method(:conditions), method(:numbers), method(:many), method(:times), method(:server)].each { |part| part.call(cache) }
  cache.close
end
puts 'done'
