// franz-go: a client in Go alone. It speaks the newest versions of most APIs.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	patience = 30 * time.Second
	// How long it goes on sending while brokers are restarted: longer than that takes.
	send = 30 * time.Second
)

var (
	bootstrap = strings.Split(os.Args[1], ",")
	prefix    = os.Args[2]
	replicas  int16
)

func name(of string) string { return prefix + "-" + of }

func client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap...))...)
}

func create(ctx context.Context, topic string, partitions int32) error {
	cl, err := client()
	if err != nil {
		return err
	}
	defer cl.Close()
	made, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, replicas, nil, topic)
	return errors.Join(err, made.Err)
}

func equal(got, expect any, what string) error {
	if !reflect.DeepEqual(got, expect) {
		return fmt.Errorf("%s: %v, not %v", what, got, expect)
	}
	return nil
}

// read polls until there are so many records, or an error.
func read(ctx context.Context, cl *kgo.Client, count int) ([]*kgo.Record, error) {
	var records []*kgo.Record
	for len(records) < count {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return records, err
		}
		records = append(records, fetches.Records()...)
	}
	return records, nil
}

func admin(ctx context.Context) error {
	topic := name("admin")
	if err := create(ctx, topic, 3); err != nil {
		return err
	}
	if err := create(ctx, topic, 3); !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("made twice: %v", err)
	}
	cl, err := client()
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	listed, err := adm.ListTopics(ctx, topic)
	if err != nil {
		return err
	}
	if err := equal(len(listed[topic].Partitions), 3, "partitions"); err != nil {
		return err
	}
	brokers, err := adm.ListBrokers(ctx)
	if err != nil {
		return err
	}
	if err := equal(len(brokers), len(bootstrap), "brokers"); err != nil {
		return err
	}
	configs, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return err
	}
	if err := equal(len(configs), 1, "described"); err != nil {
		return err
	}
	if _, err := adm.DeleteTopics(ctx, topic); err != nil {
		return err
	}
	return nil
}

func idempotentProducerWithEachCodec(ctx context.Context) error {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for codec, option := range codecs {
		topic := name("codec-" + codec)
		if err := create(ctx, topic, 1); err != nil {
			return err
		}
		cl, err := client(
			kgo.ProducerBatchCompression(option), kgo.ProducerLinger(20*time.Millisecond), kgo.ConsumeTopics(topic),
		)
		if err != nil {
			return err
		}
		defer cl.Close()
		var sent []*kgo.Record
		for i := range 500 {
			sent = append(sent, &kgo.Record{
				Topic: topic, Key: []byte(strconv.Itoa(i)), Value: []byte(strings.Repeat("value ", 20)),
				Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{}}},
			})
		}
		if err := cl.ProduceSync(ctx, sent...).FirstErr(); err != nil {
			return fmt.Errorf("%s: %w", codec, err)
		}
		got, err := read(ctx, cl, len(sent))
		if err != nil {
			return fmt.Errorf("%s: %w", codec, err)
		}
		for i, record := range got {
			if record.Offset != int64(i) || string(record.Key) != strconv.Itoa(i) ||
				string(record.Value) != string(sent[i].Value) || len(record.Headers) != 1 {
				return fmt.Errorf("%s: record %d differs", codec, i)
			}
		}
	}
	return nil
}

func groupWithTwoMembers(ctx context.Context) error {
	topic, group := name("group"), name("group")
	if err := create(ctx, topic, 4); err != nil {
		return err
	}
	changes := make(chan [2]int, 100)
	member := func(which int) (*kgo.Client, error) {
		cl, err := client(
			kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
				changes <- [2]int{which, len(m[topic])}
			}),
			kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
				changes <- [2]int{which, -len(m[topic])}
			}),
		)
		if err == nil {
			go func() {
				for !cl.PollFetches(ctx).IsClientClosed() && ctx.Err() == nil {
				}
			}()
		}
		return cl, err
	}
	held := [2]int{}
	until := func(first, second int) error {
		for held != [2]int{first, second} {
			select {
			case change := <-changes:
				held[change[0]] += change[1]
			case <-ctx.Done():
				return fmt.Errorf("members hold %v, not %v", held, [2]int{first, second})
			}
		}
		return nil
	}
	first, err := member(0)
	if err != nil {
		return err
	}
	defer first.Close()
	if err := until(4, 0); err != nil {
		return err
	}
	second, err := member(1)
	if err != nil {
		return err
	}
	if err := until(2, 2); err != nil {
		second.Close()
		return err
	}
	second.Close()
	return until(4, 0)
}

func committedOffsets(ctx context.Context) error {
	topic, group := name("commits"), name("commits")
	if err := create(ctx, topic, 1); err != nil {
		return err
	}
	cl, err := client()
	if err != nil {
		return err
	}
	defer cl.Close()
	for range 3 {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic}).FirstErr(); err != nil {
			return err
		}
	}
	adm := kadm.NewClient(cl)
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: 2, LeaderEpoch: -1, Metadata: "m"})
	if err := adm.CommitAllOffsets(ctx, group, offsets); err != nil {
		return err
	}
	fetched, err := adm.FetchOffsets(ctx, group)
	if err != nil {
		return err
	}
	found, _ := fetched.Lookup(topic, 0)
	if err := equal([]any{found.At, found.Metadata}, []any{int64(2), "m"}, "committed"); err != nil {
		return err
	}
	lags, err := adm.Lag(ctx, group)
	if err != nil {
		return err
	}
	return equal(lags[group].Lag.Total(), int64(1), "lag")
}

func transactions(ctx context.Context) error {
	topic := name("transactions")
	if err := create(ctx, topic, 1); err != nil {
		return err
	}
	cl, err := client(kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer cl.Close()
	var expected []string
	for i := range 10 {
		if err := cl.BeginTransaction(); err != nil {
			return err
		}
		value := strconv.Itoa(i)
		if err := cl.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
			return err
		}
		commits := i%3 != 1
		if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(commits)); err != nil {
			return err
		}
		if commits {
			expected = append(expected, value)
		}
	}
	reader, err := client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer reader.Close()
	records, err := read(ctx, reader, len(expected))
	if err != nil {
		return err
	}
	var got []string
	for _, record := range records {
		got = append(got, string(record.Value))
	}
	return equal(got, expected, "read")
}

func throughRestarts(ctx context.Context) error {
	topic := name("restarts")
	if err := create(ctx, topic, 1); err != nil {
		return err
	}
	cl, err := client(kgo.ConsumeTopics(topic))
	if err != nil {
		return err
	}
	defer cl.Close()
	count := 0
	failures := make(chan error, 1)
	for deadline := time.Now().Add(send); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		record := &kgo.Record{Topic: topic, Value: []byte(strconv.Itoa(count))}
		cl.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failures <- err:
				default:
				}
			}
		})
		count++
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failures:
		return err
	default:
	}
	records, err := read(ctx, cl, count)
	if err != nil {
		return err
	}
	for i, record := range records {
		if string(record.Value) != strconv.Itoa(i) {
			return fmt.Errorf("record %d says %s", i, record.Value)
		}
	}
	return nil
}

func main() {
	number, err := strconv.ParseInt(os.Args[3], 10, 16)
	if err != nil {
		panic(err)
	}
	replicas = int16(number)
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == "github.com/twmb/franz-go" {
				version = dependency.Version
			}
		}
	}
	fmt.Println("version franz-go", version)
	type testCase struct {
		name string
		run  func(context.Context) error
	}
	cases := []testCase{
		{"admin", admin},
		{"idempotent-producer-with-each-codec", idempotentProducerWithEachCodec},
		{"group-with-two-members", groupWithTwoMembers},
		{"committed-offsets", committedOffsets},
		{"transactions-commit-and-abort", transactions},
	}
	if os.Args[4] == "restarts" {
		cases = []testCase{{"nothing-is-lost-or-doubled-through-restarts", throughRestarts}}
	}
	for _, c := range cases {
		ctx, cancel := context.WithTimeout(context.Background(), send+patience)
		if err := c.run(ctx); err != nil {
			fmt.Printf("fail %s: %s\n", c.name, strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("pass", c.name)
		}
		cancel()
	}
	fmt.Println("end")
}
