package logstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/txcoord/txcoord/tables/objstore"
)

// spark is a driver with S3DynamoDBLogStore, written from its description and apart
// from the code that it runs against. Its file system creates without overwriting by
// a look and a put that overwrites, as S3A did for long, unless it is a newer one.
type spark struct {
	objects objstore.Store
	entries sparkEntries
	newer   bool
	ask     func(int) // counts writers between look and claim
}

// sparkEntries are the requests that it sends to the table of entries.
type sparkEntries interface {
	Get(ctx context.Context, tablePath, fileName string) (Entry, error)
	Newest(ctx context.Context, tablePath string) (Entry, error)
	Claim(ctx context.Context, e Entry) (Entry, error)
	// Replace puts the whole entry without a condition.
	Replace(ctx context.Context, e Entry) error
}

var (
	errSparkExists = errors.New("FileAlreadyExistsException")
	errSparkSystem = errors.New("FileSystemException")
)

func (s *spark) exists(key string) (bool, error) {
	_, err := s.objects.Stat(context.Background(), key)
	if errors.Is(err, objstore.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// copyNew is copy with overwrite=false.
func (s *spark) copyNew(from, to string) error {
	data, _, err := s.objects.Get(context.Background(), from, objstore.Range{})
	if err != nil {
		return err
	}
	if s.newer {
		if err := s.objects.PutIfAbsent(context.Background(), to, data); errors.Is(err, objstore.ErrExists) {
			return errSparkExists
		} else if err != nil {
			return err
		}
		return nil
	}
	there, err := s.exists(to)
	if err != nil {
		return err
	}
	if there {
		return errSparkExists
	}
	return s.objects.Put(context.Background(), to, data)
}

func (s *spark) acknowledge(e Entry) error {
	e.Complete, e.Expires = true, time.Now().Add(24*time.Hour).Unix()
	return s.entries.Replace(context.Background(), e)
}

func (s *spark) fix(e Entry) error {
	target, copied := root+logFolder+e.FileName, false
	for retry := 0; ; retry++ {
		err := func() error {
			if !copied {
				there, err := s.exists(target)
				if err != nil {
					return err
				}
				if !there {
					if err := s.copyNew(root+logFolder+e.TempPath, target); err != nil {
						return err
					}
				}
				copied = true
			}
			return s.acknowledge(e)
		}()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errSparkExists):
			copied = true
		case retry >= 3:
			return err
		}
	}
}

// list answers the versions in the log.
func (s *spark) list() ([]int64, error) {
	e, err := s.entries.Newest(context.Background(), tablePathInTests)
	if err != nil && !errors.Is(err, ErrNoEntry) {
		return nil, err
	}
	if err == nil && !e.Complete {
		if err := s.fix(e); err != nil {
			return nil, err
		}
	}
	var versions []int64
	for e, err := range s.objects.List(context.Background(), objstore.ListOptions{Prefix: root + logFolder}) {
		if err != nil {
			return nil, err
		}
		if v, ok := parseName(strings.TrimPrefix(e.Key, root+logFolder)); ok {
			versions = append(versions, v)
		}
	}
	return versions, nil
}

// write is the write of a commit with overwrite=false.
func (s *spark) write(v int64, id string, data []byte) error {
	key, name := root+logFolder+fileName(v), fileName(v)
	s.ask(1)
	claimed := false
	defer func() {
		if !claimed {
			s.ask(-1)
		}
	}()
	if there, err := s.exists(key); there || err != nil {
		return errors.Join(err, errWhen(there))
	}
	if err := s.before(v); err != nil {
		return err
	}
	e := Entry{TablePath: tablePathInTests, FileName: name, TempPath: fmt.Sprintf(".tmp/%s.%s", name, id)}
	if err := s.objects.Put(context.Background(), root+logFolder+e.TempPath, data); err != nil {
		return err
	}
	_, err := s.entries.Claim(context.Background(), e)
	if errors.Is(err, ErrClaimed) {
		return errSparkExists
	}
	if err != nil {
		return err
	}
	claimed = true
	s.ask(-1)
	if err := s.copyNew(root+logFolder+e.TempPath, key); err == nil {
		_ = s.acknowledge(e) // what fails from here on is passed over
	}
	return nil
}

func errWhen(there bool) error {
	if there {
		return errSparkExists
	}
	return nil
}

// before is what it looks at of the version below.
func (s *spark) before(v int64) error {
	if v == 0 {
		e, err := s.entries.Get(context.Background(), tablePathInTests, fileName(0))
		if errors.Is(err, ErrNoEntry) {
			return nil
		}
		if err == nil && e.Complete {
			return fmt.Errorf("%w: old entries for the table still exist", errSparkSystem)
		}
		return err
	}
	e, err := s.entries.Get(context.Background(), tablePathInTests, fileName(v-1))
	if err == nil && !e.Complete {
		return s.fix(e)
	}
	if err != nil && !errors.Is(err, ErrNoEntry) {
		return err
	}
	there, err := s.exists(root + logFolder + fileName(v-1))
	if err == nil && !there {
		return errSparkSystem
	}
	return err
}

const tablePathInTests = "s3a://b/db/t"
